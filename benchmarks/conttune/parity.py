"""Six cases from DS2's own tests: does our DS2 choose the same p as the authors'?

One Source, or two alike, -> Op1 -> Op2, every p = 1; sources are never scaled.

Reference:
    Kalavri et al., "Three steps is all you need", OSDI 2018; the figures are those of its published artifact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.objective import Bounds
from millrace.model.protocols import Optimizer
from millrace.model.signals import AppSignals, Edge, OperatorSignals, Signals

APP = "job"
OPERATORS = ("op1", "op2")
BEGIN = datetime(2018, 1, 1, tzinfo=UTC)
PERIOD = timedelta(seconds=30)


@dataclass(frozen=True)
class Measured:
    """An instance's rates, rows per second: true rates (per second of useful time) and observed rates, in and out."""

    true_in: float
    true_out: float
    observed_in: float
    observed_out: float


@dataclass(frozen=True)
class Fixture:
    """A case.

    Attributes:
        source: Each source.
        operators: Op1 and Op2.
        sources: Number of sources.
        expected: p of Op1 and Op2 that DS2 chooses.
    """

    source: Measured
    operators: tuple[Measured, Measured]
    sources: int
    expected: tuple[int, int]


_JOBS = (
    (Measured(0, 100, 0, 90), (Measured(50, 400, 45, 380), Measured(100, 200, 100, 200))),
    (Measured(0, 200, 0, 90), (Measured(40, 700, 15, 380), Measured(99, 200, 100, 200))),
    (Measured(0, 200, 0, 90), (Measured(10, 700, 15, 380), Measured(201, 200, 100, 200))),
)
_EXPECTED: Mapping[int, Sequence[tuple[int, int]]] = {
    1: ((2, 8), (5, 36), (20, 70)),
    2: ((4, 16), (10, 71), (40, 140)),
}
FIXTURES = tuple(
    Fixture(source, operators, sources, expected)
    for sources, answers in _EXPECTED.items()
    for (source, operators), expected in zip(_JOBS, answers, strict=True)
)


def mismatches(ds2: Optimizer) -> int:
    """Return in how many of the six cases an optimizer differs from DS2."""
    return sum(chosen(ds2, fixture) != fixture.expected for fixture in FIXTURES)


def chosen(ds2: Optimizer, fixture: Fixture) -> tuple[int, ...]:
    """Return p of Op1 and Op2 that an optimizer chooses."""
    proposal, _ = ds2.propose(_signals(fixture), _deployment(), {})
    wanted = {change.operator: change.value for change in proposal.changes}
    return tuple(int(wanted.get(name, 1)) for name in OPERATORS)


def _deployment() -> Deployment:
    app = AppDeployment("job.py", (), len(OPERATORS), 1024, 1000, parallelism=dict.fromkeys(OPERATORS, 1))
    return Deployment(APP, 1, True, {APP: app})


def _signals(fixture: Fixture) -> Signals:
    names = [f"source{i + 1}" for i in range(fixture.sources)]
    measured = {**dict.fromkeys(names, fixture.source), **dict(zip(OPERATORS, fixture.operators, strict=True))}
    pairs = [(name, OPERATORS[0]) for name in names] + [OPERATORS]
    app = AppSignals(
        app=APP,
        slots=len(OPERATORS),
        parallelism=None,
        source_splits=False,
        arrival_rows_per_s=None,
        processed_rows_per_s=None,
        backlog_rows=None,
        backlog_growth_rows_per_s=None,
        batches=1,
        healthy_batches=1,
        busy_ratio=None,
        backpressured_ratio=None,
        slot_busy_ratio=None,
        capacity=None,
        operators=tuple(_operator(name, found) for name, found in measured.items()),
        edges=tuple(Edge(a, b, measured[a].observed_out) for a, b in pairs),
    )
    return Signals(APP, BEGIN, BEGIN + PERIOD, 1, 1, (app,), bounds=Bounds(1, 1000))


def _operator(name: str, found: Measured) -> OperatorSignals:
    source = not found.true_in
    return OperatorSignals(
        operator=name,
        name=name,
        parallelism=1,
        rows_in_per_s=found.observed_in,
        useful_s_per_row=None if source else 1 / found.true_in,
        throughput=None if source else found.true_in,
        rows_out_per_s=found.observed_out,
        output_throughput=found.true_out,
    )
