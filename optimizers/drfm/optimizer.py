"""drfm in the control loop: at which ingest node each input stream enters.

If a feed redirects its streams between ingest tables, or a fleet moves them between drivers, the tables or drivers are
the nodes, and a plan becomes changes of the Deployment. Otherwise a plan is advice, for nodes whose capacity the spec
gives. It is remembered and counts as done: the next plan starts from there, as if the advice had been followed.

A node that is down gets no stream. Its streams count as having none, so they are placed like new ones. A node that does
not run gets none either if the pipeline has no slots left for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from millrace.model.admission import INGEST_OPTIMIZER, AdmissionPlan, LoadUnit, StreamCounts
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import INGEST, NOWHERE, Change, Deployment
from millrace.model.errors import MillraceError
from millrace.model.signals import Signals
from millrace.optimizers.arrays import Floats, Ints
from millrace.optimizers.drfm import memory as memories
from millrace.optimizers.drfm.admission_state import AdmissionState, first_state, positions, take_in
from millrace.optimizers.drfm.ingest_tables import at_tables
from millrace.optimizers.drfm.messages import all_down, explain
from millrace.optimizers.drfm.observed_periods import ObservedPeriods, first_period, new_periods
from millrace.optimizers.drfm.options import AdmissionPolicy
from millrace.optimizers.drfm.problem import NEW, Problem
from millrace.optimizers.drfm.rate_forecaster import RateForecaster
from millrace.optimizers.drfm.sizing import WorkerCounts, worker_changes
from millrace.optimizers.drfm.stream_placement import ROUNDING, StreamPlacement
from millrace.optimizers.drfm.usable_nodes import usable_nodes

FIRST, MOVES, RELEASES, STAY = "streams_to_admit", "streams_to_redirect", "nodes_to_release", "streams_stay"
NO_PROFILE, BAD_SIGNALS, ALL_DOWN = "no_new_profile", "bad_signals", "all_nodes_down"
LEAST_AHEAD = 16
"""Fewest periods whose loads a plan shows: the paper's strategies look no further than two."""


class Drfm:
    """Admits input streams.

    Args:
        options: The section ``admission`` of the spec: capacity, method, metadata of streams.
    """

    Options = AdmissionPolicy

    def __init__(self, options: AdmissionPolicy) -> None:
        self.policy = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose where the streams should enter and why, and remember it."""
        counts, tables = signals.streams, self.policy.ingest
        if counts is None:
            return Proposal(INGEST_OPTIMIZER, (), NO_PROFILE, ""), memory
        nodes = usable_nodes(tables, signals, current)
        if tables and not nodes.up:
            why = all_down(nodes.down, signals.budget_key if nodes.withheld else "")
            return Proposal(INGEST_OPTIMIZER, (), ALL_DOWN, why), memory
        try:
            forecaster = self.policy.rate_forecaster(counts)
            known = memories.read(memory, counts.period_s, forecaster, counts.unit)
            state = known or first_state(forecaster, first_period(counts))
            observed = new_periods(counts, state.streams, state.next_period)
            if not len(observed.load):
                return Proposal(INGEST_OPTIMIZER, (), NO_PROFILE, ""), memory
            before = dict(current.ingest) if tables else state.nodes
            placed = {name: number for name, number in before.items() if number in nodes.up} if tables else before
            state = take_in(state, observed, forecaster, self.policy, placed if tables else None, nodes.running)
            needed = len(np.unique(state.node))
            if tables:
                rate = forecaster.forecast(state.forecast, 1)[0][0]
                state = at_tables(state, placed, nodes.up, rate, forecaster.capacity, nodes.running)
            missing = max(0, needed - len(nodes.up)) if tables else 0
            plan = self._plan(counts, observed, state, before, forecaster, missing)
            if nodes.withheld:
                plan = replace(plan, withheld=nodes.withheld, budget_key=signals.budget_key)
        except MillraceError as error:
            return Proposal(INGEST_OPTIMIZER, (), BAD_SIGNALS, f"Streams stay: {error}"), memory
        predicted = {"ingest_nodes": float(plan.split), "ingest_load_ratio": plan.highest_load}
        changes = _changes(plan, current) if plan.acts else ()
        if self.policy.sizing and plan.query is not None and plan.merge is not None:
            counted = WorkerCounts(plan.query, plan.merge)
            sized, wanted = worker_changes(counted, self.policy.sizing, signals, current, changes)
            changes, predicted = (*changes, *sized), predicted | wanted
        proposal = Proposal(INGEST_OPTIMIZER, changes, _reason(plan), explain(plan), predicted, admission=plan)
        return proposal, memories.write(state, counts.period_s, counts.unit)

    def _plan(
        self,
        counts: StreamCounts,
        observed: ObservedPeriods,
        state: AdmissionState,
        nodes_before: Mapping[str, int],
        forecaster: RateForecaster,
        missing: int,
    ) -> AdmissionPlan:
        policy, period_s, capacity = self.policy, counts.period_s, forecaster.capacity
        of_load = period_s * counts.unit.counts  # counts per period that make a load of 1
        before, entered = _node_of(state, nodes_before), set(nodes_before.values())
        nodes = policy.ingest or _node_names(max([int(state.node.max(initial=NEW)), *entered], default=NEW) + 1)
        down = tuple(name for name in policy.ingest if name in counts.down)
        mean, _ = forecaster.forecast(state.forecast, max(policy.options.ahead, LEAST_AHEAD))
        holds, least_nodes = _capacity_bounds(state.node, mean, capacity)
        accuracy, expected = state.accuracy, [state.expected.get(name) for name in state.streams]
        actual = observed.load[-1][positions(state.streams, observed.streams)]
        actual = np.where(np.isnan(actual), [load or 0.0 for load in expected], actual)
        is_rows = counts.unit is LoadUnit.ROWS
        rate = float(mean[0].sum()) / period_s if is_rows else _rows_per_s(observed, state, mean[0])
        workers = policy.sizing.workers(rate) if policy.sizing else None
        lagging = _lagging(state, mean[0], capacity) if missing else ()
        left_nodes = sorted(entered - set(state.node.tolist()))
        return AdmissionPlan(
            method=policy.options.method,
            since=datetime.fromtimestamp(state.next_period * period_s, UTC),
            period_s=period_s,
            capacity=capacity / of_load,
            nodes=nodes,
            stream=state.streams,
            before=tuple(before.tolist()),
            after=tuple(state.node.tolist()),
            forecast=tuple(None if load is None else load / of_load for load in expected),
            came=tuple((actual / of_load).tolist()),
            total_forecast=tuple(load / of_load for load in accuracy.forecast),
            total_came=tuple(load / of_load for load in accuracy.actual),
            error=accuracy.error,
            total_error=accuracy.total_error,
            loads=_loads(state.node, mean / of_load, len(nodes)),
            holds=holds,
            least_nodes=least_nodes,
            optimal=state.optimal,
            oversized=tuple(n for n, load in zip(state.streams, mean[0], strict=True) if load > capacity),
            left=tuple(sorted(set(nodes_before) - set(state.streams))),
            # a spec may name fewer nodes than before
            released=tuple(nodes[i] for i in left_nodes if i < len(nodes) and nodes[i] not in down),
            query=workers.query if workers else None,
            merge=workers.merge if workers else None,
            acts=bool(policy.ingest),
            unit=counts.unit,
            down=down,
            missing=missing if lagging else 0,  # without a stream that lags, only the margin is smaller
            lagging=lagging,
            fleet=counts.fleet,
        )


def _node_of(state: AdmissionState, nodes: Mapping[str, int]) -> Ints:
    return np.array([nodes.get(name, NEW) for name in state.streams], dtype=np.intp)


def _node_names(count: int) -> tuple[str, ...]:
    return tuple(f"ingest-{i + 1}" for i in range(count))


def _rows_per_s(observed: ObservedPeriods, state: AdmissionState, mean: Floats) -> float:
    """Return the rows per second that are expected to arrive at all nodes together in the next period.

    Args:
        observed: The periods, which show how many rows make up a load.
        state: After them.
        mean: Expected load of each stream, shape (S,).
    """
    rows, load = np.nansum(observed.rows, axis=0), np.nansum(observed.load, axis=0)
    typical = rows.sum() / load.sum() if load.any() else 0.0  # of streams without a load in these periods
    ratio = np.divide(rows, load, out=np.full(len(rows), typical), where=load > 0)
    return float(mean @ ratio[positions(state.streams, observed.streams)]) / observed.period_s


def _lagging(state: AdmissionState, mean: Floats, capacity: float) -> tuple[str, ...]:
    """Return the streams on nodes whose expected loads, shape (S,), exceed the capacity, the largest first."""
    over = np.bincount(state.node, weights=mean) > capacity * (1 + ROUNDING)
    late = np.flatnonzero(over[state.node])
    return tuple(state.streams[at] for at in late[np.argsort(-mean[late], kind="stable")])


def _capacity_bounds(node: Ints, mean: Floats, capacity: float) -> tuple[int, int]:
    """Return for how many periods nodes stay within capacity, and the fewest nodes that any plan needs for as long.

    Args:
        node: Node of each stream, shape (S,).
        mean: Expected rates of the next periods, shape (H, S).
        capacity: Capacity of a node.
    """
    none, free = np.zeros_like(mean), np.zeros(len(node))
    mean = np.minimum(mean, capacity)  # an oversized stream exceeds it in any plan
    problem = Problem(node, free, mean, none, capacity, int(node.max(initial=NEW)) + 1)
    placement = StreamPlacement(problem, 0.0)
    holds = int(placement.windows().min(initial=len(mean)))
    return holds, placement.least_nodes(max(holds, 1))


def _changes(plan: AdmissionPlan, current: Deployment) -> tuple[Change, ...]:
    """Return the plan as changes of the Deployment; streams that have left are removed."""

    def app(node: int) -> str:
        name = plan.nodes[node] if 0 <= node < len(plan.nodes) else ""
        return name if name in current.apps else min(current.apps)  # a feed's tables are no apps

    here = zip(plan.stream, plan.before, plan.after, strict=True)
    moved = [Change(app(after), INGEST, before, after, stream=name) for name, before, after in here if before != after]
    left = {stream: current.ingest[stream] for stream in plan.left}
    gone = [Change(app(before), INGEST, before, NOWHERE, stream=stream) for stream, before in left.items()]
    return (*moved, *gone)


def _reason(plan: AdmissionPlan) -> str:
    if plan.redirections or plan.rescued:
        return MOVES
    if plan.admitted:
        return FIRST
    return RELEASES if plan.released else STAY


def _loads(node: Ints, mean: Floats, nodes: int) -> tuple[tuple[float, ...], ...]:
    """Return the expected load of each node in each period from rates of shape (H, S)."""
    loads = np.zeros((nodes, len(mean)))
    np.add.at(loads, node, mean.T)
    return tuple(tuple(row) for row in loads.tolist())
