"""Placement before slots: no slots are added if moving state partitions is enough, and none are freed that it needs.

Symbols:
    g     potential throughput over the present one, after the best placement within its budget
    s_p   how well p slots are used after placement, compared with the present ones, 0..1

Up: if the present p is too small, all observations are multiplied by g, and the question is asked again. If p is then
large enough, partitions move and the slots stay. A backlog alone does not count: it drains faster after the moves, and
the next evaluation sees whether fast enough. If the rate is unknown, any gain is tried first, since it costs no slots.
Otherwise the step is sized by the larger throughput, and state partitions are placed on what it leads to.

Down: a lower level has to be enough with s_p times what the model expects of it.

Reference:
    [ALBIC] Madsen, Zhou and Cao: Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine, 2016,
    Section 4.1, Algorithm 1, lines 4 to 7. Deviation: the sizing method, which the paper leaves open, gets the effect
    of the plan as a throughput.
"""

from __future__ import annotations

from dataclasses import replace

from millrace.model.placement import PotentialPlacement
from millrace.model.signals import Signals
from millrace.optimizers.conttune.messages import Reason, count, format_number
from millrace.optimizers.conttune.operator_context import OperatorContext
from millrace.optimizers.conttune.scaling_step import JobContext, ScalingStep, choose_step
from millrace.optimizers.conttune.state import Promise


def with_placement(job: JobContext, step: ScalingStep, signals: Signals) -> tuple[JobContext, ScalingStep]:
    """Return a job and its step after what placement alone would change; both as given if that is not known.

    Args:
        job: An app as a whole.
        step: Its step without another placement.
        signals: Signals of this evaluation.
    """
    potential = signals.potential
    if potential is None or len(job.operators) != 1 or potential.app != job.app.app:
        return job, step
    (context,) = job.operators
    if context.operator.id is not None or potential.slots != context.now:
        return job, step
    target = step.targets.get(context.operator.name, context.now)
    if target > context.now:
        return _up(job, context, step, potential, signals)
    return job, _down(context, step, target, potential) if target < context.now else step


def _up(
    job: JobContext, context: OperatorContext, step: ScalingStep, potential: PotentialPlacement, signals: Signals
) -> tuple[JobContext, ScalingStep]:
    name, now = context.operator.name, context.now
    if not potential.known:
        # a step for more arrival alone does not wait: it counts on measurements from before
        waits = context.operator.ability is not None
        return job, ScalingStep({name: Reason.PARTITIONS_UNKNOWN}) if waits else step
    gain = potential.gain(context.demand.fixed_at(context.effective) or 0.0)
    if gain <= 1 or not context.is_known:
        return job, step
    state = replace(job.state, promise=Promise(signals.deployment_version, signals.until, gain))
    faster = replace(job, operators=(_faster(context, gain),), state=state)
    then = choose_step(faster)
    more = then.targets.get(name, now) > now
    if more and then.reasons[name] is not Reason.BACKLOG_TO_DRAIN and not job.is_lower_bound:
        if not potential.pays:
            return job, step
        return faster, replace(then, note=f"More slots are needed although {potential.cause}.")
    sustains = context.demand.sustainable(context.ability_now, context.effective)
    details = {"measured": format_number(sustains), "cause": potential.cause}
    return faster, ScalingStep({name: Reason.PLACEMENT_FIRST}, details=details)


def _faster(context: OperatorContext, gain: float) -> OperatorContext:
    """Return an operator as it would be measured after the moves; sizes that were too small may be enough then."""
    observations = [replace(o, throughput=o.throughput * gain, noise=o.noise * gain) for o in context.observations]
    return replace(context, observations=observations, state=replace(context.state, insufficient=0))


def _down(context: OperatorContext, step: ScalingStep, target: int, potential: PotentialPlacement) -> ScalingStep:
    """Return a step down to slots that are enough with state partitions as evenly spread as possible."""
    name, levels = context.operator.name, [p for p in context.bounds.levels if target <= p < context.now]
    enough = next((p for p in levels if _is_enough(context, p, potential.share_on(p))), context.now)
    if enough == target:
        return step
    least = context.options.slack if step.least is None else step.least
    if context.now - enough >= max(1.0, least * context.now):
        note = f"Fewer would not do: {_why_not(target, potential)}."
        return replace(step, targets={name: enough}, pays=None, note=note)
    if not context.is_known:
        return ScalingStep({name: Reason.CAPACITY_UNKNOWN})
    details = {"lower": count(target, "slot"), "cause": _why_not(target, potential)}
    return ScalingStep({name: Reason.CANNOT_BALANCE}, details=details)


def _is_enough(context: OperatorContext, slots: int, share: float) -> bool:
    if not context.is_known:  # almost empty batches: how evenly their rows are spread does not matter
        return share > 0
    effective, _ = context.effective_at(slots)
    return share >= 1 or context.curve.sure_at(effective) * share >= context.demand.required_at(effective)


def _why_not(slots: int, potential: PotentialPlacement) -> str:
    executors = count(slots // potential.cores, "executor")
    if potential.share_on(slots) == 0:
        return f"{executors} cannot hold the state within the limits of placement.options"
    return f"state partitions cannot be spread evenly over {executors}: {potential.heaviest}"
