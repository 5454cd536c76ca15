"""Describe an admission plan in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.model.admission import AdmissionPlan

NAMED = 3
"""Most streams that are named."""


def explain(plan: AdmissionPlan) -> str:
    """Describe a plan.

    For example ``admit 87 streams on 4 ingest nodes at 480 rows/s each, the fewest possible; nodes at most 94 % full in
    the next 16 periods; 5 query workers and 1 merge worker; forecast off by 8 % in total, 40 % per stream``.
    """
    if not plan.stream:
        return (
            f"No input stream has rows any more: {_several(len(plan.left), 'stream')} ended, no ingest node is needed"
        )
    nodes = f"{_several(plan.split, 'ingest node')} at {plan.capacity:.3g} {plan.unit} each"
    parts = [
        _down(plan),
        f"{_steps(plan)} on {nodes}{_bound(plan)}",
        _loads(plan),
        _full(plan),
        _behind(plan),
        _oversized(plan),
        _errors(plan),
    ]
    return "; ".join(filter(None, parts))


def all_down(nodes: Sequence[str], budget_key: str = "") -> str:
    """Say that no node can get a stream.

    Args:
        nodes: Names of the nodes that are down.
        budget_key: Spec key that leaves no slots for the others; empty if there are none.
    """
    names = ", ".join(nodes[:NAMED]) + _more(nodes)
    others = f", and {budget_key} leaves no slots for others" if budget_key else ""
    return f"Streams stay: no ingest node can run them, as {names} {'are' if nodes[1:] else 'is'} down{others}"


def _down(plan: AdmissionPlan) -> str:
    if not plan.down:
        return ""
    names = f"{', '.join(plan.down[:NAMED])}{_more(plan.down)} {'are' if plan.down[1:] else 'is'} down"
    return f"{names}: {_several(plan.rescued, 'stream')} to other nodes" if plan.rescued else names


def _steps(plan: AdmissionPlan) -> str:
    streams = len(plan.stream)
    steps = [f"admit {_several(plan.admitted, 'stream')}"] if plan.admitted else []
    steps += [f"redirect {plan.redirections}"] if plan.redirections else []
    steps += [f"release {', '.join(plan.released)}"] if plan.released else []
    if not steps:
        return _several(streams, "stream") if plan.rescued else f"Streams stay: {streams}"
    whole = f": {_several(streams, 'stream')}" if plan.admitted < streams else ""
    return f"{' and '.join([', '.join(steps[:-1]), steps[-1]] if steps[1:] else steps)}{whole}"


def _bound(plan: AdmissionPlan) -> str:
    if not plan.holds:  # with too few nodes, a bound on their number means nothing
        return ""
    if plan.optimal or plan.split <= plan.least_nodes:
        return ", the fewest possible"
    return f" (no plan needs fewer than {plan.least_nodes})" if plan.least_nodes else ""


def _loads(plan: AdmissionPlan) -> str:
    peak = f"{100 * plan.highest_load:.0f} % full"
    if plan.holds >= plan.ahead:
        return f"nodes at most {peak} in the next {plan.ahead} periods"
    return f"fits for {plan.holds} of the next {plan.ahead} periods, then nodes are up to {peak}"


def _full(plan: AdmissionPlan) -> str:
    if not plan.missing:
        return ""
    count = len(plan.nodes) - len(plan.down) - len(plan.withheld)
    full = "the only ingest node is full" if count == 1 else f"all {count} ingest nodes are full"
    helps = "raise fleet.nodes.max or fleet.node.slots" if plan.fleet else "add a table to admission.ingest"
    helps = f"raise {plan.budget_key}" if plan.withheld else helps
    late = f", so these will lag: {', '.join(plan.lagging[:NAMED])}{_more(plan.lagging)}" if plan.lagging else ""
    return f"{full}{late} ({helps})"


def _behind(plan: AdmissionPlan) -> str:
    if plan.query is None or plan.merge is None:
        return ""
    return f"{_several(plan.query, 'query worker')} and {_several(plan.merge, 'merge worker')}"


def _oversized(plan: AdmissionPlan) -> str:
    if not plan.oversized:
        return ""
    return f"streams too fast for one node (divide them): {', '.join(plan.oversized[:NAMED])}{_more(plan.oversized)}"


def _errors(plan: AdmissionPlan) -> str:
    if plan.total_error is None or plan.error is None:
        return ""
    return f"forecast off by {100 * plan.total_error:.0f} % in total, {100 * plan.error:.0f} % per stream"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - NAMED} more" if len(names) > NAMED else ""


def _several(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"
