"""The signals that a micro-batch app reports for a period: the app as one operator, with its fitted capacity.

The fit errs like a real one: it is accurate for the batches that it saw. So if processing ability is too high, the
fixed cost is too high as well, and both together give the measured duration at the measured rows.
"""

from __future__ import annotations

from datetime import datetime

from benchmarks.simulation.draws import Draws
from benchmarks.simulation.micro_batch import Batches, MicroBatches
from benchmarks.simulation.micro_batch_truth import MicroBatchTruth
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.workload import RECENT
from millrace.model.errors import NotReady
from millrace.model.signals import AppSignals, Capacity, Observation, OperatorSignals

LEAST_BATCHES = 3
"""Fewest healthy batches at a level for a fit."""


class MicroBatchSignals:
    """Turns batches into signals.

    Args:
        scenario: The case.
        app: The measured app.
        truth: Its true values.
        draws: The run's noise: the app's first, then the operators'.
    """

    def __init__(self, scenario: Scenario, app: MicroBatches, truth: MicroBatchTruth, draws: Draws) -> None:
        self._name, self._app, self._truth, self._draws = scenario.shape.name, app, truth, draws
        self._gains = scenario.shape.gains
        self._relative = scenario.noise.told_relative
        self._limit, self._workload = scenario.micro_batch.batch_rows_limit, scenario.workload
        self._batches: dict[int, int] = {}
        self._fitted: dict[int, Capacity] = {}

    def measure(self, evaluation: int, until: datetime) -> tuple[AppSignals, list[Observation]]:
        """Return the signals of the period that just ended, and its point of processing ability if there is one.

        Args:
            evaluation: Number of the evaluation, which the noise depends on.
            until: End of the period (UTC).

        Raises:
            NotReady: Quietly, if no batch has ended: there is nothing new to report, and the period continues.
        """
        app, seen = self._app, self._app.period
        if not seen.ended:
            raise NotReady(f"{self._name}: no batch has ended")
        slots, period = app.levels[0], app.now - seen.since
        ran = self._truth.ran(slots)
        noise, _ = self._draws.at(evaluation)
        fitted = self._fit(ran, seen, noise[0])
        capacity = self._fitted.get(ran)
        signals = AppSignals(
            app=self._name,
            slots=slots,
            parallelism=ran,
            source_splits=ran < slots,
            arrival_rows_per_s=seen.arrived / period,
            arrival_recent_rows_per_s=sum(self._workload.means(app.now - period * RECENT, app.now)),
            processed_rows_per_s=seen.processed / period,
            backlog_rows=round(app.left),
            backlog_growth_rows_per_s=(app.left - seen.left) / period,
            batches=seen.ended,
            healthy_batches=seen.healthy,
            busy_ratio=min(1.0, seen.inside_s / period),
            backpressured_ratio=seen.behind / seen.ended,
            slot_busy_ratio=min(1.0, seen.work_s / period * ran / slots),
            capacity=capacity,
            restart_lag_rows=round(app.lag),
            batch_rows_limit=self._limit if seen.full else None,
            operators=self._operators(ran, seen, period, noise[1:]),
        )
        points = []
        if fitted and capacity is not None:
            points.append(
                Observation(self._name, ran, capacity.rows_per_s, capacity.rows_per_s_error, seen.healthy, until)
            )
        app.new_period()
        return signals, points

    def _fit(self, ran: int, seen: Batches, noise: float) -> bool:
        """Fit the level that ran; return whether there was anything new to fit."""
        self._batches[ran] = self._batches.get(ran, 0) + seen.healthy
        rows = sum(seen.rows)
        if not seen.healthy or rows <= 0 or self._batches[ran] < LEAST_BATCHES:
            return False
        s_per_row = sum(n * c for n, c in zip(seen.rows, self._app.s_per_row, strict=True)) / rows
        mean = rows / seen.ended
        duration_s = self._truth.fixed_s(ran) + mean * s_per_row
        # processing cannot have taken longer than the whole time, so a lower ability cannot be measured
        ability = max(noise / s_per_row, mean / duration_s)
        fixed_s = duration_s - mean / ability
        self._fitted[ran] = Capacity(ran, fixed_s, ability, self._relative * ability, self._batches[ran])
        return True

    def _operators(self, ran: int, seen: Batches, period: float, noise: list[float]) -> tuple[OperatorSignals, ...]:
        found = []
        abilities = self._truth.operator_abilities(self._app.levels[0], self._app.factors)
        for name, gain, ability, factor in zip(self._truth.operators, self._gains, abilities, noise, strict=True):
            rows = sum(g * n for g, n in zip(gain, seen.rows, strict=True))
            measured = ability * factor if rows > 0 else None
            found.append(
                OperatorSignals(
                    operator=name,
                    name=name,
                    parallelism=ran,
                    rows_in_per_s=rows / period,
                    useful_s_per_row=ran / measured if measured else None,
                    throughput=measured,
                )
            )
        return tuple(found)
