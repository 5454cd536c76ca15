"""The records of a measured window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.many.drivers import PERIOD_S
from benchmarks.many.evaluations import History, Wait, answers, reads, reasons, waits
from benchmarks.many.world import DRIVERS
from benchmarks.record import Record, percentiles

BENCH, METHOD = "many", "millrace"
CORES, IDLE = "cores, Airflow included", "idle cores"
ANSWER, WAIT = "commit to Decision, p{}", "due to Decision, p{}"
SPARK = ("spark-master", "spark-worker")
"""Services that only run drivers and executors, which these pipelines have elsewhere."""
CALCULATED = {200: 8, 1000: 0}
"""Numbers of pipelines to calculate cores for, each with the machine's cores; 0 for no machine."""
DAYS = 30
"""Airflow keeps its metadata and logs as long by default, MLflow its runs of Decisions longer."""
NO_LIMITS: Mapping[int, float | None] = {50: None, 95: None}
EXPECTED = frozenset(
    (
        *("under_provisioned", "utilisation_above_target", "backlog_to_drain", "over_provisioned", "binary_lifting"),
        *("well_provisioned", "window_half_old", "slack_too_small", "no_safe_lower_level", "does_not_pay"),
        *(
            "at_minimum",
            "below_decision_threshold",
            "step_sufficed",
            "settling",
            "not_running_yet",
            "held_by_trigger",
            "draining",
        ),
    )
)
"""Reason codes of pipelines that run as they should under this load."""


@dataclass(frozen=True)
class Window:
    """What was measured of a stack with pipelines.

    Attributes:
        begin: Begin, seconds since 1970.
        end: End.
        known: Until when its histories are known; later than the end, to include Decisions on its last commits.
        used_s: Processor time, seconds, by service.
        histories: Telemetry commits and evaluations by pipeline.
        failed: ``DAG.task`` of failed task instances.
        changes: Deployments committed.
        others: Cores that other programs on the machine used.
        grown_mb: Growth of the files of Airflow and MLflow, MB, by program.
    """

    begin: float
    end: float
    known: float
    used_s: Mapping[str, float]
    histories: Mapping[str, History]
    failed: Sequence[str] = ()
    changes: int = 0
    others: float = 0.0
    grown_mb: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin

    @property
    def evaluations(self) -> int:
        """Evaluations whose Decisions were committed in it."""
        return sum(self.begin <= e.recorded < self.end for h in self.histories.values() for e in h.evaluations)

    def waits(self) -> list[Wait]:
        """Return how long evaluations took from when they were due to their Decisions."""
        return self._inside(w for h in self.histories.values() for w in waits(h, PERIOD_S, self.known))

    def answers(self) -> list[Wait]:
        """Return the same for commits after a silence, whose evaluations were due at once."""
        return self._inside(w for h in self.histories.values() for w in answers(h, self.known))

    def _inside(self, every: Iterable[Wait]) -> list[Wait]:
        return [w for w in every if self.begin <= w.due < self.end]


def cores(used_s: Mapping[str, float], seconds: float) -> float:
    """Return the cores that the stack used, without the synthetic drivers, Spark's master and its worker."""
    return sum(s for name, s in used_s.items() if name not in (DRIVERS, *SPARK)) / seconds


def per_evaluation_s(busy_cores: float, idle_cores: float, evaluations: int, seconds: float) -> float | None:
    """Return the processor time that each evaluation adds to an idle stack, seconds; None without evaluations.

    It includes everything else that a running pipeline causes, such as reconciliation and parsing its DAGs.

    Args:
        busy_cores: Cores of the stack with pipelines.
        idle_cores: Cores of the stack without pipelines.
        evaluations: Their number.
        seconds: Length of the measurement, seconds, > 0.
    """
    return None if not evaluations else max(0.0, busy_cores - idle_cores) * seconds / evaluations


def calculated_cores(idle_cores: float, evaluation_s: float, pipelines: int) -> float:
    """Return the cores of a stack in which each pipeline is evaluated once per period.

    Args:
        idle_cores: Cores of the stack without pipelines.
        evaluation_s: Processor time that each evaluation adds, seconds.
        pipelines: Number of pipelines.
    """
    return idle_cores + pipelines * evaluation_s / PERIOD_S


def records(scenario: str, window: Window, idle_cores: float) -> Iterator[Record]:
    """Yield the figures of a scenario.

    Args:
        scenario: Its name.
        window: The measurements.
        idle_cores: Cores of the stack without pipelines.
    """

    def one(figure: str, value: float, unit: str, n: int = 1) -> Record:
        return Record(BENCH, scenario, METHOD, figure, float(f"{value:.4g}"), unit, n=n)

    busy, evaluations = cores(window.used_s, window.seconds), window.evaluations
    yield one(CORES, busy, "cores")
    yield one(IDLE, idle_cores, "cores")
    for name, used_s in sorted(window.used_s.items(), key=lambda item: -item[1]):
        yield one(f"cores of {name}", used_s / window.seconds, "cores")
    yield one("cores of other programs", window.others, "cores")
    yield from latency_records(scenario, window)
    for name, mb in window.grown_mb.items():
        yield one(f"{name}'s files after {DAYS} days, calculated", mb * DAYS * 86_400 / window.seconds, "MB")
    per_minute = evaluations / len(window.histories) / (window.seconds / 60)
    yield one("evaluations per pipeline and minute", per_minute, "1", n=evaluations)
    yield one("changes of slots", window.changes, "1")
    yield one("failed task instances", len(window.failed), "1")
    for name, count in sorted(Counter(window.failed).items()):
        yield one(f"failed: {name}", count, "1")
    found = reasons(window.histories, window.begin, window.end)
    other = {code: n for code, n in sorted(found.items()) if code.partition(": ")[2] not in EXPECTED}
    yield one("Decisions with unexpected reasons", sum(other.values()), "1", n=evaluations)
    for code, count in other.items():
        yield one(f"unexpected: {code}", count, "1")
    evaluation_s = per_evaluation_s(busy, idle_cores, evaluations, window.seconds)
    if evaluation_s is not None:
        yield one("CPU per evaluation", evaluation_s, "s", n=evaluations)
        for pipelines, machine in {len(window.histories): 0, **CALCULATED}.items():
            needed, figure = (
                calculated_cores(idle_cores, evaluation_s, pipelines),
                f"{pipelines:,} pipelines, calculated",
            )
            yield one(f"cores for {figure}", needed, "cores")
            if machine:
                yield one(f"share of {machine} cores for {figure}", needed / machine, "ratio")


def latency_records(scenario: str, window: Window) -> Iterator[Record]:
    """Yield the times until Decisions: from commits, from when they were due, and from the evaluations' starts.

    Commits that have no Decision yet count with their time so far, so with any of them the percentiles are too low.
    """
    for figure, without, found in (
        (ANSWER, "commits without a Decision", window.answers()),
        (WAIT, "due evaluations without a Decision", window.waits()),
    ):
        yield from percentiles(BENCH, scenario, METHOD, figure, [w.seconds for w in found], NO_LIMITS)
        undecided = sum(not w.decided for w in found)
        yield Record(BENCH, scenario, METHOD, without, undecided, "1", n=max(1, len(found)))
    own = [s for h in window.histories.values() for s in reads(h, window.begin, window.end)]
    yield from percentiles(BENCH, scenario, METHOD, "evaluation to Decision, p{}", own, NO_LIMITS)
