"""Options of flow: how sure it must be, and what is worth a reconfiguration."""

from __future__ import annotations

from pydantic import Field

from millrace.optimizers.api import Options


class FlowOptions(Options):
    """How flow decides. Ratios are shares, 0.05 is 5 %.

    Attributes:
        risk: Accepted probability that a chosen configuration, all operators together, is too small, (0, 0.5]. It
            determines the room above the target rate: the less is known of a level, the more room.
        slack: Least share of the job's p that a step down must free, [0, 1).
        reshave: The same while the rate is still that of the last step, [0, 1): a healthy step is left alone.
        spend: Share of the room above the target utilisation that may be used before a step up, [0, 1). A higher share
            means fewer steps; each step restores all of the room.
        tolerance: An app of micro-batches that misses its plan by less than this is left alone, >= 0: its measured
            utilisation is no more certain, and a restart costs more.
        exponent: Prior mean of e in PA(p) ~ p^e, (0, 1.5].
        exponent_sd: Its standard deviation, (0, 1].
        reach: Longest step up, in multiples of linear scaling, >= 1: what one small level says about far larger ones is
            not worth the cores it could cost.
        change_s: Time that a change costs, seconds, as if its slots did nothing for that long, >= 0, until changes of
            the app were measured: a step down is made only if it pays for itself and for the step up that undoes it.
            None for 10 s if the driver restarts, and 5 s if it does not.
        top_k: Most recent observations of an operator and level that are averaged, >= 1.
        catch_up: Also serve the backlog within catch_up_s, never the part that Millrace's own restart caused; no step
            down while a backlog drains.
        drift: Rescale the observations of an operator when a new measurement is far from them.
        fluctuation: Keep room for rises that the rate has often made from its present value.
        proactive: Scale up ahead of a rise that a trend or a repetition predicts.
        ineffective_thr: Least share of a predicted gain that counts as an effect, [0, 1]; no step beyond a level from
            which more p was measured to gain less; 0 switches it off.
        ineffective_for_s: How long such a measurement stays valid, seconds, > 0: its cause may be gone by then.
        whole_windows: No step while the rate jumped so late in the period that the present rate is not clear: the step
            would lead halfway. Flow waits at most until a whole period is after the jump.
        source_splits: No step up if fewer tasks than slots ran.
        contingencies: Plan ahead for more arrival than the slots can sustain, to add slots before the next evaluation.
    """

    risk: float = Field(0.2, gt=0, le=0.5)
    slack: float = Field(0.1, ge=0, lt=1)
    reshave: float = Field(0.25, ge=0, lt=1)
    spend: float = Field(0.0, ge=0, lt=1)
    tolerance: float = Field(0.05, ge=0)
    exponent: float = Field(0.85, gt=0, le=1.5)
    exponent_sd: float = Field(0.12, gt=0, le=1)
    reach: float = Field(2.5, ge=1)
    change_s: float | None = Field(None, ge=0)
    top_k: int = Field(10, ge=1)
    catch_up: bool = True
    drift: bool = True
    fluctuation: bool = True
    proactive: bool = False
    ineffective_thr: float = Field(0.2, ge=0, le=1)
    ineffective_for_s: float = Field(3600.0, gt=0)
    whole_windows: bool = True
    source_splits: bool = True
    contingencies: bool = True
