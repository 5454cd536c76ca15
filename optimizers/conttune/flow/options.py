"""Options of flow: how sure it is to be, and what is worth a reconfiguration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.ranges import NOT_NEGATIVE, POSITIVE, SHARE, Range, check_fields, parse_fields


@dataclass(frozen=True)
class Options:
    """How flow decides. Ratios are shares, 0.05 is 5 %.

    Attributes:
        risk: Accepted probability that a chosen configuration, all operators together, is too small, (0, 0.5]. It is
            what the room above the target rate comes from: the less is known of a level, the more room.
        slack: Least share of the job's p that a step down must free, [0, 1).
        reshave: The same while the rate is what it was at the last step, [0, 1): a healthy step is left alone.
        spend: Share of the room above the target utilisation that may be used before a step up, [0, 1): the calmer, the
            more of it; a step then restores all of it.
        tolerance: An app of micro-batches whose plan is missed by less than this is left alone, >= 0: its measured
            utilisation is not surer, and a restart costs more.
        exponent: Prior mean of e in PA(p) ~ p^e, (0, 1.5].
        exponent_sd: Its standard deviation, (0, 1].
        reach: Longest step up, in times of what linear scaling would suggest, >= 1: what one small level says about
            far larger ones is not worth the cores it could cost.
        top_k: Most recent observations of an operator and level that are averaged, >= 1.
        catch_up: Serve also the backlog within catch_up_s, never the part that Millrace's own restart caused; no step
            down while a backlog drains.
        drift: Rescale what was learned of an operator when it is measured far from it.
        fluctuation: Keep room for rises that the rate has often made from where it is.
        proactive: Scale up ahead of a rise that a trend or a repetition tells.
        ineffective_thr: Least share of a predicted gain that counts as an effect, [0, 1]; no step beyond a level from
            which more p was measured to bring less; 0 switches it off.
        ineffective_for_s: How long such a measurement stands, seconds, > 0: its cause may be gone by then.
        whole_windows: No step while the rate jumped so late in the period that what arrives now cannot be told, for it
            would lead halfway; it is waited for until a period lies after the jump, at most.
        source_splits: No step up where fewer tasks than slots ran.
    """

    risk: float = 0.2
    slack: float = 0.1
    reshave: float = 0.25
    spend: float = 0.0
    tolerance: float = 0.05
    exponent: float = 0.85
    exponent_sd: float = 0.12
    reach: float = 2.5
    top_k: int = 10
    catch_up: bool = True
    drift: bool = True
    fluctuation: bool = True
    proactive: bool = False
    ineffective_thr: float = 0.2
    ineffective_for_s: float = 3600.0
    whole_windows: bool = True
    source_splits: bool = True

    def __post_init__(self) -> None:
        """Refuse values of a wrong type or out of range.

        Raises:
            MillraceError: With the option, its value, the allowed range and the remedy.
        """
        check_fields(self, ALLOWED)


ALLOWED: Mapping[str, Any] = {
    "risk": Range(0, 0.5, low_open=True),
    "slack": Range(0, 1, high_open=True),
    "reshave": Range(0, 1, high_open=True),
    "spend": Range(0, 1, high_open=True),
    "tolerance": NOT_NEGATIVE,
    "exponent": Range(0, 1.5, low_open=True),
    "exponent_sd": SHARE,
    "reach": Range(1, math.inf, high_open=True),
    "top_k": int,
    "ineffective_thr": Range(0, 1),
    "ineffective_for_s": POSITIVE,
    "catch_up": None,
    "drift": None,
    "fluctuation": None,
    "proactive": None,
    "whole_windows": None,
    "source_splits": None,
}


def parse(options: Mapping[str, Any]) -> Options:
    """Return checked options from a spec's ``tuner.options``.

    Raises:
        MillraceError: If an option is unknown, or a value of a wrong type or out of range.
    """
    return parse_fields(Options, options)
