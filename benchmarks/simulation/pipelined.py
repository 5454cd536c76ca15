"""A pipelined job as a fluid: rows flow continuously, and the excess over an operator's capacity waits at the sources.

Between two events (a change of the rate, the end of a downtime, a source's backlog running dry) all rates are constant.
The simulation is therefore exact and costs a few additions per evaluation, however many rows pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.simulation.pipelined_truth import PipelinedTruth
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.segment import Judgement, Segment, extend
from benchmarks.simulation.throttle import passing
from benchmarks.simulation.truth import Factors, Levels, Rates


@dataclass(frozen=True)
class Flow:
    """The flow while rates, configuration and the set of sources with a backlog are constant.

    Attributes:
        emitted: By each source, rows per second.
        loads: Into each operator, rows per second.
        busy: Share of each operator's capacity in use.
        held: Share of each source's arrivals that does not pass (1 for a source that counts as held while it drains).
        blocked: Share of time in which each operator waits for a full operator downstream.
    """

    emitted: tuple[float, ...]
    loads: tuple[float, ...]
    busy: tuple[float, ...]
    held: tuple[float, ...]
    blocked: tuple[float, ...]


class Tally:
    """What happened since the last evaluation: row counts and seconds, by source or by operator."""

    def __init__(self, since: float, sources: int, operators: int, backlog: Sequence[float]) -> None:
        self.since = since
        self.running_s = 0.0
        self.down_s = 0.0
        self.arrived = [0.0] * sources
        self.emitted = [0.0] * sources
        self.held_s = [0.0] * sources
        self.loads = [0.0] * operators
        self.busy_s = [0.0] * operators
        self.blocked_s = [0.0] * operators
        self.backlog = sum(backlog)

    def add(self, flow: Flow, dt: float) -> None:
        """Count the flow over a time."""
        self.running_s += dt
        for total, rates in (
            (self.emitted, flow.emitted),
            (self.held_s, flow.held),
            (self.loads, flow.loads),
            (self.busy_s, flow.busy),
            (self.blocked_s, flow.blocked),
        ):
            for i, rate in enumerate(rates):
                total[i] += rate * dt


class Pipelined:
    """The job over time.

    Args:
        scenario: The case.
        truth: Its true values.
    """

    def __init__(self, scenario: Scenario, truth: PipelinedTruth) -> None:
        shape = scenario.shape
        self._scenario, self._truth, self._workload = scenario, truth, scenario.workload
        self._behind = _downstream(shape.sizable, [(link.producer, link.consumer) for link in shape.links])
        self.now = 0.0
        self.levels: Levels = scenario.start
        self.backlog = [0.0] * len(shape.sources)
        self.lag = 0.0
        self.segments: list[Segment] = []
        self._lag_above = 0.0
        self._down_until = 0.0
        self._index = 0
        self.factors: Factors = (1.0,) * len(shape.sizable)
        self._flows: dict[tuple[Rates, tuple[bool, ...]], Flow] = {}
        self._judged: dict[Rates, Judgement] = {}
        self.tally = self._fresh()

    @property
    def rates(self) -> Rates:
        """Arrival rates up to now, rows per second."""
        return self._workload.rates[self._workload.before(self.now)]

    @property
    def capacities(self) -> tuple[float, ...]:
        """Present capacity of each operator, rows per second."""
        return self._truth.capacities(self.levels, self.factors)

    @property
    def unprocessed(self) -> float:
        """Rows that wait at the sources."""
        return sum(self.backlog)

    def restart(self, levels: Levels) -> float:
        """Set p of each operator; return the seconds in which nothing is processed."""
        self.levels = levels
        self._down_until = self.now + self._scenario.downtime_s
        self.lag, self._lag_above = 0.0, sum(self.backlog)
        self._forget()
        return self._scenario.downtime_s

    def advance(self, until: float) -> None:
        """Let time pass; ability drifts once per call."""
        self.tally = self._fresh()
        factors = self._scenario.drift.factors(self._truth.units, self.now) if self._scenario.drift.events else None
        if factors is not None and factors != self.factors:
            self.factors = factors
            self._forget()
        times, rates = self._workload.times, self._workload.rates
        while self.now < until:
            while self._index + 1 < len(times) and times[self._index + 1] <= self.now:
                self._index += 1
            change = times[self._index + 1] if self._index + 1 < len(times) else until
            end = min(until, change)
            if self.now < self._down_until:
                self._stand_still(min(end, self._down_until), rates[self._index])
            else:
                self._run(end, rates[self._index])

    def _stand_still(self, until: float, rates: Rates) -> None:
        dt = until - self.now
        before = tuple(self.backlog)
        for s, rate in enumerate(rates):
            self.tally.arrived[s] += rate * dt
            self.backlog[s] += rate * dt
            self.lag += rate * dt
        self.tally.down_s += dt
        self._record(until, rates, before, down=True)

    def _run(self, until: float, rates: Rates) -> None:
        flow = self._flow(rates, tuple([b > 0 for b in self.backlog]))
        dt, dry = until - self.now, -1
        for s, waiting in enumerate(self.backlog):
            shrinks = flow.emitted[s] - rates[s]
            if waiting > 0 and shrinks * dt > waiting:
                dt, dry = waiting / shrinks, s
        before = tuple(self.backlog)
        for s, rate in enumerate(rates):
            self.tally.arrived[s] += rate * dt
            if rate != flow.emitted[s]:
                self.backlog[s] = max(0.0, self.backlog[s] + (rate - flow.emitted[s]) * dt)
        if dry >= 0:
            self.backlog[dry] = 0.0
            until = self.now + dt
            if until <= self.now:  # the remaining rows are below the resolution of time
                return
        self.tally.add(flow, dt)
        if self.lag:
            self.lag = min(self.lag, max(0.0, sum(self.backlog) - self._lag_above))
        self._record(until, rates, before, down=False)

    def _record(self, until: float, rates: Rates, before: tuple[float, ...], *, down: bool) -> None:
        if rates not in self._judged:
            self._judged[rates] = self._judge(rates)
        is_ = self._judged[rates]
        after = tuple(self.backlog)
        new = Segment(
            self.now, until, down, self.levels, is_.minimum, rates, before, after, is_.pace, is_.short, is_.adequate
        )
        extend(self.segments, new)
        self.now = until

    def _judge(self, rates: Rates) -> Judgement:
        truth, now = self._truth, (self.levels, rates, self.factors)
        all_wait = (True,) * len(rates)
        paces = passing(truth.gains, self.capacities, rates, all_wait, truth.shares(rates))[0]
        return Judgement(sum(paces), not truth.sustains(*now), truth.adequate(*now), truth.minimum(rates, self.factors))

    def _flow(self, rates: Rates, waiting: tuple[bool, ...]) -> Flow:
        key = rates, waiting
        if key not in self._flows:
            self._flows[key] = self._solve(rates, waiting)
        return self._flows[key]

    def _solve(self, rates: Rates, waiting: tuple[bool, ...]) -> Flow:
        truth, capacities = self._truth, self.capacities
        emitted, full = passing(truth.gains, capacities, rates, waiting, truth.shares(rates))
        loads = tuple([sum([g * e for g, e in zip(gain, emitted, strict=True)]) for gain in truth.gains])
        busy = tuple([min(1.0, load / c) for load, c in zip(loads, capacities, strict=True)])
        drains = self._scenario.drain_is_backpressure
        held = tuple(
            [
                1.0 if drains and waits else max(0.0, 1 - e / a) if a > 0 else 0.0
                for e, a, waits in zip(emitted, rates, waiting, strict=True)
            ]
        )
        # if no source is held, a full operator only drains a backlog
        pressing = [
            f and any([h > 0 and g > 0 for h, g in zip(held, gain, strict=True)])
            for f, gain in zip(full, truth.gains, strict=True)
        ]
        blocked = tuple(
            [1 - b if any([pressing[j] for j in behind]) else 0.0 for b, behind in zip(busy, self._behind, strict=True)]
        )
        return Flow(emitted, loads, busy, held, blocked)

    def _forget(self) -> None:
        self._flows.clear()
        self._judged.clear()

    def _fresh(self) -> Tally:
        return Tally(self.now, len(self.backlog), len(self.factors), self.backlog)


def _downstream(names: Sequence[str], links: Sequence[tuple[str, str]]) -> list[tuple[int, ...]]:
    """Return the indices of all operators downstream of each operator."""
    index = {name: i for i, name in enumerate(names)}
    found: dict[str, set[int]] = {}
    for name in reversed(names):
        consumers = [c for p, c in links if p == name]
        found[name] = {index[c] for c in consumers}.union(*[found[c] for c in consumers])
    return [tuple(sorted(found[name])) for name in names]
