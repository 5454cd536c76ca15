"""An admission plan in one sentence."""

from __future__ import annotations

from include.model.admission import AdmissionPlan

NAMED = 3
"""Streams that are named one by one."""


def sentence(told: AdmissionPlan) -> str:
    """Return a plan for a person.

    For example ``admit 87 streams on 4 ingest nodes at 480 rows/s each, the fewest possible; at most 94 % of a node in
    the next 16 periods; 5 query workers and 1 merge worker; forecast off by 8 % in total, 40 % by stream``.
    """
    if not told.stream:
        return (
            f"No input stream brings rows any more: {_several(len(told.left), 'stream')} left, no ingest node is needed"
        )
    parts = [
        f"{_steps(told)} on {_several(told.split, 'ingest node')} at {told.capacity:.3g} rows/s each{_bound(told)}",
        _loads(told),
        _behind(told),
        _oversized(told),
        _errors(told),
    ]
    return "; ".join(filter(None, parts))


def _steps(told: AdmissionPlan) -> str:
    streams = len(told.stream)
    steps = [f"admit {_several(told.admitted, 'stream')}"] if told.admitted else []
    steps += [f"redirect {told.redirections}"] if told.redirections else []
    steps += [f"release {', '.join(told.released)}"] if told.released else []
    if not steps:
        return f"Streams stay: {streams}"
    whole = f": {_several(streams, 'stream')}" if told.admitted < streams else ""
    return f"{' and '.join([', '.join(steps[:-1]), steps[-1]] if steps[1:] else steps)}{whole}"


def _bound(told: AdmissionPlan) -> str:
    if not told.holds:  # with too few nodes, nothing is said by there being no fewer
        return ""
    if told.optimal or told.split <= told.least_nodes:
        return ", the fewest possible"
    return f" (no plan needs fewer than {told.least_nodes})" if told.least_nodes else ""


def _loads(told: AdmissionPlan) -> str:
    peak = f"{100 * told.highest_load:.0f} % of a node"
    if told.holds >= told.ahead:
        return f"at most {peak} in the next {told.ahead} periods"
    return f"fits for {told.holds} of the next {told.ahead} periods, then up to {peak}"


def _behind(told: AdmissionPlan) -> str:
    if told.query is None or told.merge is None:
        return ""
    return f"{_several(told.query, 'query worker')} and {_several(told.merge, 'merge worker')}"


def _oversized(told: AdmissionPlan) -> str:
    if not told.oversized:
        return ""
    more = len(told.oversized) - NAMED
    names = ", ".join(told.oversized[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"faster than a node alone, divide: {names}"


def _errors(told: AdmissionPlan) -> str:
    if told.total_error is None or told.error is None:
        return ""
    return f"forecast off by {100 * told.total_error:.0f} % in total, {100 * told.error:.0f} % by stream"


def _several(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"
