"""Decide which lines of a contingency plan may be carried out between two evaluations, and when a plan is renewed.

The guards judge every line now, as if it were proposed. Whoever carries it out only checks the quota and the quiet
hours. The cool-down is not asked: it concerns changes under way, which are over or replaced by then.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from millrace.control.guard_context import GuardContext
from millrace.control.guards import CHAIN
from millrace.lake.deployments import OUTRUN, DeploymentStore
from millrace.model.contingency import Contingency, ContingencyPlan, describe
from millrace.model.decision import CARRIED_OUT, Action, Decision
from millrace.model.deployment import BY_DECISION, Deployment, slot_changes
from millrace.model.errors import Conflict
from millrace.model.spec import Mode, PipelineSpec

NOT_ASKED = ("cool-down",)
LAPSES_S, LAPSES_PERIODS, LAPSES_TRIGGERS = 300.0, 5, 3
"""A plan lapses if no evaluation follows for this long, for so many periods, or for so many intervals of the trigger,
whichever is longest."""


def allowed_lines(
    lines: tuple[Contingency, ...], content: Deployment, guards: GuardContext, *, changes: bool
) -> tuple[Contingency, ...]:
    """Return the lines that no guard vetoes, of apps whose slots change while they run.

    Args:
        lines: Lines from the optimizer that owns the slots.
        content: The content that they start from.
        guards: Context of the guards.
        changes: Whether the step to that content is itself a change, which counts as one of the hour.
    """
    if changes:
        guards = replace(guards, max_per_hour=guards.max_per_hour - 1)
    return tuple(line for each in lines if (line := _allowed(each, content, guards)) is not None)


def _allowed(line: Contingency, content: Deployment, guards: GuardContext) -> Contingency | None:
    """Return a line, with as many slots for other apps as the guards allow; None if they do not allow it at all."""
    app = content.apps.get(line.app)
    if app is None or app.executor is None or line.slots <= app.slots or not content.kept_running:
        return None
    live = {name: slots for name, slots in line.others.items() if (o := content.apps.get(name)) and o.executor}
    for most in range(max(live.values(), default=0), -1, -1):
        others = {name: min(slots, most) for name, slots in live.items() if most > content.apps[name].slots}
        each = replace(line, others=others)
        target = content.with_changes(slot_changes(each, content))
        if all(guard(guards, target) is None for name, guard in CHAIN if name not in NOT_ASKED):
            return each
    return None


def plan_in_force(current: Deployment, spec: PipelineSpec) -> ContingencyPlan | None:
    """Return the plan of a Deployment; None if it has none, or one that was made for another spec."""
    plan = current.contingencies
    return plan if plan is not None and plan.config_hash == spec.config_hash else None


def plan_of(decision: Decision, spec: PipelineSpec) -> ContingencyPlan | None:
    """Return a Decision's lines for agents to carry out; None in modes in which a person decides."""
    if spec.mode is not Mode.AUTO or not decision.contingencies:
        return None
    limits, trigger_s = spec.guards, decision.signals.trigger_s if decision.signals is not None else 0.0
    lapses_s = max(LAPSES_S, LAPSES_PERIODS * spec.period_s, LAPSES_TRIGGERS * trigger_s)
    lines, id = decision.contingencies, decision.decision_id
    return ContingencyPlan(id, lines, limits.max_total_slots, limits.quiet_hours, lapses_s, spec.config_hash)


def renew_plan(deployments: DeploymentStore, decision: Decision, spec: PipelineSpec) -> Deployment | None:
    """Commit the plan of a Decision that changes nothing else, if it differs; return the version that has it.

    In a mode in which a person decides, the plan is withdrawn. If an evaluation judged nothing, the former plan stays:
    it was made for the slots that run. It is withdrawn if the spec has changed since.
    """
    current = deployments.latest(decision.pipeline)
    if current is None or current.version != decision.base_version or decision.action in CARRIED_OUT:
        return None
    plan, former = plan_of(decision, spec), current.contingencies
    if spec.mode is Mode.AUTO and (decision.action is Action.AWAIT or not decision.proposals):
        plan = plan_in_force(current, spec)
    if plan == former or (plan is not None and not plan.renews(former)):
        return None
    why = "a person decides on each change" if spec.mode is not Mode.AUTO else "nothing more is allowed now"
    reason = f"No plan: {why}." if plan is None else f"Planned ahead: {describe(plan.lines)}"
    content = replace(current.with_plan(plan), author=BY_DECISION, decision_id=decision.decision_id, reason=reason)
    with suppress(Conflict):  # another commit came first
        return deployments.commit(content, current.version)
    return None


def withdraw_plan(deployments: DeploymentStore, pipeline: str, by: str) -> Deployment | None:
    """Commit a version without the plan: no agent acts then. Return it; None if there was no plan.

    Args:
        deployments: Store for the version.
        pipeline: Name of the pipeline.
        by: The person who paused it.

    Raises:
        Conflict: If other changes kept coming first; try again.
    """
    for in_use in deployments.attempts():
        current = in_use.latest(pipeline)
        if current is None or current.contingencies is None:
            return None
        content = replace(current.with_plan(None), author=by, decision_id=None, reason=f"Paused by {by}.")
        with suppress(Conflict):
            return deployments.commit(content, current.version, in_use)
    raise Conflict(OUTRUN)
