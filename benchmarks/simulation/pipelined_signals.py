"""The signals that a pipelined job reports for a period: exact counts, noisy ability, windows that emit unevenly."""

from __future__ import annotations

from datetime import datetime

from benchmarks.simulation.draws import Draws
from benchmarks.simulation.pipelined import Pipelined
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.workload import RECENT
from millrace.model.signals import AppSignals, Edge, Observation, OperatorSignals


class PipelinedSignals:
    """Turns the flow into signals.

    Args:
        scenario: The case.
        job: The measured job.
        draws: The run's noise.
    """

    def __init__(self, scenario: Scenario, job: Pipelined, draws: Draws) -> None:
        shape = scenario.shape
        self._app, self._job, self._draws = shape.name, job, draws
        self._workload = scenario.workload
        self._sources, self._sizable = shape.sources, shape.sizable
        self._keys = tuple(f"{shape.name}/{name}" for name in shape.sizable)
        self._relative = scenario.noise.told_relative
        place = {name: i for i, name in enumerate((*shape.sources, *shape.sizable))}
        windows = {v.id: i for i, v in enumerate(v for v in shape.vertices if v.window)}
        # (producer, its place, consumer's place, ratio, window), all links into an operator before any link out of it
        self._links = tuple(
            (link.producer, link.consumer, place[link.producer], place[link.consumer], link.ratio, window)
            for link in sorted(shape.links, key=lambda link: place[link.producer])
            for window in [windows.get(link.producer, -1)]
        )

    def measure(self, evaluation: int, until: datetime) -> tuple[AppSignals, list[Observation]]:
        """Return the signals of the period that just ended, and its points of processing ability.

        Args:
            evaluation: Number of the evaluation, which the noise depends on.
            until: End of the period (UTC).
        """
        job, tally = self._job, self._job.tally
        period = job.now - tally.since
        noise, windows = self._draws.at(evaluation)
        rates, edges = self._rates(period, windows)
        # a window's burst affects only how rows are counted
        processed = self._rates(period, [1.0] * len(windows))[0] if windows else rates
        out = [0.0] * len(rates)
        for (_, _, producer, _, _, _), edge in zip(self._links, edges, strict=True):
            out[producer] += edge.rows_per_s or 0.0
        running = tally.running_s or 1.0
        held = [h / running for h in tally.held_s]
        newest = self._workload.means(job.now - period * RECENT, job.now)
        operators = [self._source(s, period, rates[s], out[s], held[s], newest[s]) for s in range(len(self._sources))]
        points = []
        busiest = 0.0
        first = len(self._sources)
        for i, capacity in enumerate(job.capacities):
            rate = rates[first + i]
            # processing cannot have taken longer than the whole time, so a lower ability cannot be measured
            measured = max(capacity * noise[i], processed[first + i]) if tally.loads[i] > 0 else None
            told = self._operator(i, rate, out[first + i], measured, tally.blocked_s[i] / period)
            operators.append(told)
            busiest = max(busiest, told.busy_ratio or 0.0)
            if measured is not None:
                error = self._relative * measured
                points.append(Observation(self._keys[i], job.levels[i], measured, error, 1, until))
        backlog = sum(job.backlog)
        app = AppSignals(
            app=self._app,
            slots=sum(job.levels),
            parallelism=None,
            source_splits=False,
            arrival_rows_per_s=sum(tally.arrived) / period,
            arrival_recent_rows_per_s=sum(newest),
            processed_rows_per_s=sum(tally.emitted) / period,
            backlog_rows=round(backlog),
            backlog_growth_rows_per_s=(backlog - tally.backlog) / period,
            batches=1,
            healthy_batches=int(tally.down_s == 0),
            busy_ratio=tally.running_s / period,
            backpressured_ratio=max(held),
            slot_busy_ratio=busiest,
            capacity=None,
            restart_lag_rows=round(job.lag),
            operators=tuple(operators),
            edges=tuple(edges),
        )
        return app, points

    def _rates(self, period: float, windows: list[float]) -> tuple[list[float], list[Edge]]:
        """Return the mean input of each operator and the mean flow of each edge, rows per second."""
        rates = [e / period for e in self._job.tally.emitted] + [0.0] * len(self._sizable)
        edges = []
        for producer, consumer, at, into, ratio, window in self._links:
            passed = rates[at] * ratio
            if window >= 0:
                passed *= windows[window]
            rates[into] += passed
            edges.append(Edge(producer, consumer, passed))
        return rates, edges

    def _source(self, s: int, period: float, rate: float, out: float, held: float, newest: float) -> OperatorSignals:
        arrival = self._job.tally.arrived[s] / period
        return OperatorSignals(
            operator=self._sources[s],
            name=self._sources[s],
            parallelism=None,
            rows_in_per_s=rate,
            useful_s_per_row=None,
            throughput=None,
            rows_out_per_s=out,
            output_throughput=arrival * out / rate if rate > 0 else None,
            arrival_rows_per_s=arrival,
            arrival_recent_rows_per_s=newest,
            backlog_rows=round(self._job.backlog[s]),
            backpressured_ratio=min(1.0, held),
        )

    def _operator(self, i: int, rate: float, out: float, ability: float | None, blocked: float) -> OperatorSignals:
        known = ability is not None and rate > 0
        p = self._job.levels[i]
        return OperatorSignals(
            operator=self._sizable[i],
            name=self._sizable[i],
            parallelism=p,
            rows_in_per_s=rate,
            useful_s_per_row=p / ability if ability else None,
            throughput=ability,
            throughput_error=self._relative * ability if ability else None,
            rows_out_per_s=out,
            output_throughput=ability * out / rate if ability and known else None,
            busy_ratio=min(1.0, rate / ability) if ability else 0.0,
            backpressured_ratio=min(1.0, blocked),
        )
