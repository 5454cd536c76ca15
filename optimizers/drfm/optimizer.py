"""drfm in the control loop: at which ingest node each input stream enters.

If a feed redirects its streams between ingest tables, the tables are the nodes, and a plan becomes changes of the
Deployment. Otherwise a plan is advice, for nodes whose capacity the spec gives. It is remembered and counts as done:
the next plan starts from there, as if the advice had been followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from millrace.model.admission import INGEST_OPTIMIZER, AdmissionPlan, StreamCounts
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import INGEST, NOWHERE, Change, Deployment
from millrace.model.errors import MillraceError
from millrace.model.signals import Signals
from millrace.optimizers.drfm import memory as memories
from millrace.optimizers.drfm.admission_state import AdmissionState, first_state, take_in
from millrace.optimizers.drfm.messages import explain
from millrace.optimizers.drfm.observed_periods import ObservedPeriods, first_period, new_periods
from millrace.optimizers.drfm.options import AdmissionPolicy
from millrace.optimizers.drfm.problem import NEW, Floats, Ints, Problem, match_nodes
from millrace.optimizers.drfm.rate_forecaster import RateForecaster
from millrace.optimizers.drfm.stream_placement import StreamPlacement

FIRST, MOVES, RELEASES, STAY = "streams_to_admit", "streams_to_redirect", "nodes_to_release", "streams_stay"
NO_PROFILE, BAD_SIGNALS = "no_new_profile", "bad_signals"
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
        counts = signals.streams
        if counts is None:
            return Proposal(INGEST_OPTIMIZER, (), NO_PROFILE, ""), memory
        try:
            forecaster = self.policy.rate_forecaster(counts.period_s)
            state = memories.read(memory, counts.period_s, forecaster) or first_state(forecaster, first_period(counts))
            observed = new_periods(counts, state.streams, state.next_period)
            if not len(observed.rows):
                return Proposal(INGEST_OPTIMIZER, (), NO_PROFILE, ""), memory
            before = dict(current.ingest) if self.policy.ingest else state.nodes
            state = take_in(state.at_nodes(before), observed, forecaster, self.policy)
            if self.policy.ingest:
                state = self._at_tables(state, before, forecaster)
            plan = self._plan(counts, observed, state, before, forecaster)
        except MillraceError as error:
            return Proposal(INGEST_OPTIMIZER, (), BAD_SIGNALS, f"Streams stay: {error}"), memory
        predicted = {"ingest_nodes": float(plan.split), "ingest_load_ratio": plan.highest_load}
        changes = _changes(plan, current) if plan.acts else ()
        proposal = Proposal(INGEST_OPTIMIZER, changes, _reason(plan), explain(plan), predicted, admission=plan)
        return proposal, memories.write(state, counts.period_s)

    def _at_tables(
        self, state: AdmissionState, before: Mapping[str, int], forecaster: RateForecaster
    ) -> AdmissionState:
        """Return the state with the plan's nodes mapped to the existing ingest tables."""
        rate = forecaster.forecast(state.forecast, 1)[0][0]
        tables = match_tables(state.node, _node_of(state, before), len(self.policy.ingest), rate)
        return replace(state, node=tables)

    def _plan(
        self,
        counts: StreamCounts,
        observed: ObservedPeriods,
        state: AdmissionState,
        nodes_before: Mapping[str, int],
        forecaster: RateForecaster,
    ) -> AdmissionPlan:
        policy, period_s, capacity = self.policy, counts.period_s, forecaster.capacity
        before, entered = _node_of(state, nodes_before), set(nodes_before.values())
        nodes = policy.ingest or _node_names(max([int(state.node.max(initial=NEW)), *entered], default=NEW) + 1)
        mean, _ = forecaster.forecast(state.forecast, max(policy.options.ahead, LEAST_AHEAD))
        holds, least_nodes = _capacity_bounds(state.node, mean, capacity)
        actual = dict(zip(observed.streams, observed.rows[-1].tolist(), strict=True))
        accuracy, expected = state.accuracy, [state.expected.get(name) for name in state.streams]
        rate, split = float(mean[0].sum()) / period_s, len(np.unique(state.node))
        workers = policy.sizing.workers(rate, split) if policy.sizing else None
        return AdmissionPlan(
            method=policy.options.method,
            since=datetime.fromtimestamp(state.next_period * period_s, UTC),
            period_s=period_s,
            capacity=capacity / period_s,
            nodes=nodes,
            stream=state.streams,
            before=tuple(before.tolist()),
            after=tuple(state.node.tolist()),
            forecast=tuple(None if rows is None else rows / period_s for rows in expected),
            came=tuple(actual[name] / period_s for name in state.streams),
            total_forecast=tuple(rows / period_s for rows in accuracy.forecast),
            total_came=tuple(rows / period_s for rows in accuracy.actual),
            error=accuracy.error,
            total_error=accuracy.total_error,
            loads=_loads(state.node, mean / period_s, len(nodes)),
            holds=holds,
            least_nodes=least_nodes,
            optimal=state.optimal,
            oversized=tuple(n for n, rows in zip(state.streams, mean[0], strict=True) if rows > capacity),
            left=tuple(sorted(set(nodes_before) - set(state.streams))),
            released=tuple(nodes[i] for i in sorted(entered - set(state.node.tolist()))),
            query=workers.query if workers else None,
            merge=workers.merge if workers else None,
            acts=bool(policy.ingest),
        )


def match_tables(node: Ints, before: Ints, tables: int, rate: Floats) -> Ints:
    """Return the ingest table of each stream, shape (S,), moving as few streams as possible.

    Args:
        node: Node of each stream in a plan that may use any number of nodes, shape (S,), >= 0.
        before: Former table of each, shape (S,); -1 without one.
        tables: Number of tables, >= 1. Streams of further nodes go to the least loaded tables, the fastest first.
        rate: Expected rate of each stream, shape (S,), >= 0.
    """
    before = np.where(before < tables, before, NEW)  # a spec may name fewer tables than before
    table = match_nodes(np.unique(node, return_inverse=True)[1], before, tables)
    load = np.bincount(table, weights=rate, minlength=tables)[:tables]
    beyond = np.flatnonzero(table >= tables)
    for stream in beyond[np.argsort(-rate[beyond], kind="stable")]:
        table[stream] = int(load.argmin())
        load[table[stream]] += rate[stream]
    return table


def _node_of(state: AdmissionState, nodes: Mapping[str, int]) -> Ints:
    return np.array([nodes.get(name, NEW) for name in state.streams], dtype=np.intp)


def _node_names(count: int) -> tuple[str, ...]:
    return tuple(f"ingest-{i + 1}" for i in range(count))


def _capacity_bounds(node: Ints, mean: Floats, capacity: float) -> tuple[int, int]:
    """Return for how many periods nodes stay within capacity, and the fewest nodes that any plan needs for as long.

    Args:
        node: Node of each stream, shape (S,).
        mean: Expected rates of the next periods, shape (H, S).
        capacity: Capacity of a node.
    """
    none, free = np.zeros_like(mean), np.zeros(len(node))
    mean = np.minimum(mean, capacity)  # an oversized stream exceeds it in any plan
    problem = Problem(node, free, mean, none, capacity, int(node.max(initial=NEW)) + 1, free)
    placement = StreamPlacement(problem, 0.0)
    holds = int(placement.windows().min(initial=len(mean)))
    return holds, placement.least_nodes(max(holds, 1))


def _changes(plan: AdmissionPlan, current: Deployment) -> tuple[Change, ...]:
    """Return the plan as changes of the Deployment; streams that have left are removed."""
    app = min(current.apps)
    here = zip(plan.stream, plan.before, plan.after, strict=True)
    moved = [Change(app, INGEST, before, after, stream=stream) for stream, before, after in here if before != after]
    gone = [Change(app, INGEST, current.ingest[stream], NOWHERE, stream=stream) for stream in plan.left]
    return (*moved, *gone)


def _reason(plan: AdmissionPlan) -> str:
    if plan.redirections:
        return MOVES
    if plan.admitted:
        return FIRST
    return RELEASES if plan.released else STAY


def _loads(node: Ints, mean: Floats, nodes: int) -> tuple[tuple[float, ...], ...]:
    """Return the expected load of each node in each period from rates of shape (H, S)."""
    loads = np.zeros((nodes, len(mean)))
    np.add.at(loads, node, mean.T)
    return tuple(tuple(row) for row in loads.tolist())
