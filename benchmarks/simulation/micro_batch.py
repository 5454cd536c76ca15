"""A micro-batch app over time: batches run back to back, and each takes the rows that are waiting when it starts.

A backlog drains in later, longer batches. A restart lets the running batch finish if that takes at most ``stop_s``;
otherwise the batch is aborted and its rows are processed again. Then nothing runs for the downtime. Executors that come
and go (``live_s``) stop nothing: the first batch that starts after they arrive uses them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.simulation.micro_batch_truth import MicroBatchTruth
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.segment import Judgement, Segment, extend
from benchmarks.simulation.truth import Factors, Levels, Rates


@dataclass
class Batches:
    """What happened since the last evaluation with a batch to report.

    Attributes:
        since: Start, seconds.
        arrived: Rows.
        processed: Rows of the batches that ended.
        ended: Batches that ended.
        healthy: Ended batches that count for capacity: not the first after a start.
        behind: Ended batches that left more rows waiting than the objective plans for.
        full: Ended batches that reached the row limit.
        rows: Rows of the batches that ended, by source.
        work_s: Seconds in which the slots worked on rows.
        inside_s: Seconds inside batches.
        left: Rows that waited when the last batch before ``since`` ended.
    """

    since: float
    left: float
    arrived: float = 0.0
    processed: float = 0.0
    ended: int = 0
    healthy: int = 0
    behind: int = 0
    full: int = 0
    rows: list[float] = field(default_factory=list)
    work_s: float = 0.0
    inside_s: float = 0.0


class MicroBatches:
    """The app over time.

    Args:
        scenario: The case.
        truth: Its true values.
    """

    def __init__(self, scenario: Scenario, truth: MicroBatchTruth) -> None:
        self._scenario, self._truth, self._workload = scenario, truth, scenario.workload
        sources = len(scenario.shape.sources)
        self.now = 0.0
        self.levels: Levels = scenario.start
        self.waiting = [0.0] * sources
        self.batch = [0.0] * sources
        self.lag = 0.0
        self.left = 0.0  # rows that waited when the last batch ended
        self.since_start = 0  # batches that have ended since the last start
        self.healthy_s = 0.0  # time of batches that were not cold
        self.segments: list[Segment] = []
        self.factors: Factors = (1.0,) * len(truth.operators)
        self._lag_above = 0.0
        self._batch_began = self._batch_ends = 0.0
        self._work_ratio = 0.0
        self._full = self._runs = False
        self._resumes = 0.0
        self._coming: tuple[Levels, float] | None = None
        self._index = 0
        self._judged: dict[tuple[Levels, Rates, Factors], Judgement] = {}
        self.period = Batches(0.0, 0.0, rows=[0.0] * sources)

    @property
    def rates(self) -> Rates:
        """Arrival rates up to now, rows per second."""
        return self._workload.rates[self._workload.before(self.now)]

    @property
    def s_per_row(self) -> tuple[float, ...]:
        """Seconds of a batch that a row of each source costs at present."""
        return self._truth.s_per_row(self.levels[0], self.factors)

    @property
    def unprocessed(self) -> float:
        """Rows that wait or are in the running batch."""
        return sum(self.waiting) + sum(self.batch)

    def resize(self, levels: Levels, live_s: float) -> None:
        """Set the slots of the batches that start after ``live_s`` seconds."""
        self._coming = levels, self.now + live_s

    def restart(self, levels: Levels) -> float:
        """Set the slots; return the seconds until the next batch begins."""
        stops = self.now
        if self._runs and self._batch_ends - self.now <= self._scenario.micro_batch.stop_s:
            stops = self._batch_ends
        elif self._runs:
            self.waiting = [w + b for w, b in zip(self.waiting, self.batch, strict=True)]
            self.batch = [0.0] * len(self.batch)
            self._runs = False
        self.levels = levels
        self._resumes = stops + self._scenario.downtime_s
        self.lag, self._lag_above = 0.0, self.unprocessed
        self.since_start, self.healthy_s = 0, 0.0
        return self._resumes - self.now

    def advance(self, until: float) -> None:
        """Let time pass; ability drifts from batch to batch."""
        times, rates = self._workload.times, self._workload.rates
        while self.now < until:
            while self._index + 1 < len(times) and times[self._index + 1] <= self.now:
                self._index += 1
            change = times[self._index + 1] if self._index + 1 < len(times) else until
            if not self._runs and self.now >= self._resumes:
                self._begin()
            next_ = self._batch_ends if self._runs else self._resumes
            self._pass(min(until, change, next_), rates[self._index])
            if self._runs and self.now >= self._batch_ends:
                self._end(rates[self._index])

    def new_period(self) -> None:
        """Restart the counters once their values have been reported."""
        self.period = Batches(self.now, self.left, rows=[0.0] * len(self.batch))

    def _begin(self) -> None:
        self.factors = self._scenario.drift.factors(self._truth.operators, self.now)
        limit, waits = self._scenario.micro_batch.batch_rows_limit, sum(self.waiting)
        share = 1.0 if limit is None or waits <= limit else limit / waits
        self.batch = [w * share for w in self.waiting]
        self.waiting = [w - b for w, b in zip(self.waiting, self.batch, strict=True)]
        if self._coming is not None and self.now >= self._coming[1]:
            self.levels, self.since_start, self.healthy_s, self._coming = self._coming[0], 0, 0.0, None
        live = self._scenario.micro_batch.live_s is not None
        cold = self._scenario.micro_batch.cold_ratio if live and self.since_start == 0 else 1.0
        work = cold * sum(b * c for b, c in zip(self.batch, self.s_per_row, strict=True))
        self._batch_began, self._batch_ends = self.now, self.now + self._truth.fixed_s(self.levels[0]) + work
        self._work_ratio = work / (self._batch_ends - self._batch_began)
        self._full = share < 1
        self._runs = True

    def _end(self, rates: Rates) -> None:
        period, rows = self.period, sum(self.batch)
        self.since_start += 1
        period.ended += 1
        if self.since_start > 1:
            period.healthy += 1
            self.healthy_s += self._batch_ends - self._batch_began
        period.processed += rows
        period.full += self._full
        for s, b in enumerate(self.batch):
            period.rows[s] += b
        period.behind += sum(self.waiting) > sum(rates) * self._truth.planned_s(self.levels[0])
        self.batch = [0.0] * len(self.batch)
        self._runs = False
        self.left = sum(self.waiting)
        if self._resumes > self.now:  # the batch that a reconfiguration waited for
            self.since_start, self.healthy_s, self._lag_above = 0, 0.0, self.left
        elif self.lag:
            self.lag = min(self.lag, max(0.0, self.left - self._lag_above))

    def _pass(self, until: float, rates: Rates) -> None:
        dt = until - self.now
        before = self._by_source()
        down = self._resumes > self.now and not self._runs
        for s, rate in enumerate(rates):
            self.waiting[s] += rate * dt
            self.period.arrived += rate * dt
            if down:
                self.lag += rate * dt
        if self._runs:
            self.period.inside_s += dt
            self.period.work_s += dt * self._work_ratio
        key = self.levels, rates, self.factors
        if key not in self._judged:
            self._judged[key] = self._judge(*key)
        is_ = self._judged[key]
        extend(
            self.segments,
            Segment(
                since=self.now,
                until=until,
                down=down,
                parallelism=self.levels,
                reference=is_.minimum,
                rates=rates,
                before=before,
                after=self._by_source(),
                pace=is_.pace,
                short=is_.short,
                adequate=is_.adequate,
                batch_rows=sum(self.batch),
                batch_s=self._batch_ends - self._batch_began if self._runs else 0.0,
                allowed_s=2 * self._truth.planned_s(self.levels[0]),
            ),
        )
        self.now = until

    def _judge(self, levels: Levels, rates: Rates, factors: Factors) -> Judgement:
        truth = self._truth
        return Judgement(
            truth.sustained(levels[0], rates, factors),
            not truth.sustains(levels, rates, factors),
            truth.adequate(levels, rates, factors),
            truth.minimum(rates, factors),
        )

    def _by_source(self) -> tuple[float, ...]:
        return tuple([w + b for w, b in zip(self.waiting, self.batch, strict=True)])
