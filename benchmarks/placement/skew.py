"""A third of the keys in 3 of 32 partitions, two stages with state, four executors, a constant load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import mean, median
from types import MappingProxyType

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.methods import LIVE, Method
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.elastic.placement import MANY, OURS, PLACED, SKIPPED_BATCHES, grown
from millrace.lake.partition_runs import partition_runs
from millrace.model.decision import Action, Decision
from millrace.model.placement import STATEFUL_BATCH, PartitionLoads, PlacementPlan
from millrace.model.placement_spec import Placement
from millrace.model.spec import PipelineSpec
from millrace.model.spec_sections import Slots
from millrace.model.telemetry import PartitionRun

ALBIC, EVEN = "albic", "even"
PROCESS_WAIT = "spark.locality.wait.process"
METHODS: Mapping[str, Method] = {
    ALBIC: replace(LIVE, name=ALBIC),
    EVEN: replace(PLACED[OURS], name=EVEN),
    **{f"spark_{name}": replace(method, name=f"spark_{name}") for name, method in PLACED.items() if name != OURS},
}
"""By load, by number, and Spark's own placement with its default locality wait and with none."""
WAITS: Mapping[str, Method] = {
    f"{ALBIC}_{seconds}s": replace(LIVE, name=f"{ALBIC}_{seconds}s", conf={PROCESS_WAIT: f"{seconds}s"})
    for seconds in (4, 10, 30)
}
"""By load, with different waits of a partition for the executor that has its state; pipelines use 4 s."""
WAIT_MS = 200.0
"""Wait per key. It is long enough that waits decide the batch time, not this machine's two processors, which eight
slots share. It is short enough that a batch takes seconds, like those of most streams."""
PARTITIONS = 32
"""With few partitions, several of them hot, an executor's share is so coarse that placements barely differ; Spark's own
default is 200."""
BY_LOAD = Placement()
STATE_SEEN = timedelta(minutes=3)
"""How far to look back for state sizes: drivers measure them once per minute."""
EVALUATIONS, QUIET = 12, 3
"""Evaluations within which a placement must be found, and following evaluations that must find nothing better."""
PLANS = 4
"""Most plans in sequence until nothing better is found."""


@dataclass(frozen=True)
class SteadyRun:
    """A method's result.

    Attributes:
        batch_s: Median batch time, seconds.
        moves: Partitions per sample that ran elsewhere than in the sampled batch before.
        loaded_mb: State of these partitions, MB per sample.
        plan: The plan; None without one.
        achieved_s: Time of the stateful stages measured afterwards, seconds; None if it was not measured.
        evaluations: Evaluations until the plan was made; None without a plan.
        late_plans: Plans made during the measured batches.
        distance: Load distance measured afterwards, % of the mean; None without a plan.
    """

    batch_s: float
    moves: float
    loaded_mb: float
    plan: PlacementPlan | None = None
    achieved_s: float | None = None
    evaluations: int | None = None
    late_plans: int = 0
    distance: float | None = None


def run_steady(cluster: Cluster, name: str, method: Method, batches: int, period_s: float) -> SteadyRun:
    """Return a method's result after scaling up from one executor to four.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        method: The placement method.
        batches: Number of batches to measure.
        period_s: Seconds between two evaluations.
    """
    with skewed(cluster, name, method) as pipeline:
        with at_rest(pipeline, method, period_s) as placed:
            found = measure(placed, batches)
        return _with_plan(placed, found) if by_load(method) else found


def skewed(
    cluster: Cluster,
    name: str,
    method: Method,
    *options: str,
    conf: Mapping[str, str] = MappingProxyType({}),
    jars: Sequence[str] = (),
    scheme: str = "",
) -> AbstractContextManager[Pipeline]:
    """Run the query with hot partitions, and yield it once it has grown from one executor to four: see ``grown``."""
    hot = ("--hot", f"--wait-ms={WAIT_MS:g}", *options)
    return grown(cluster, name, method, *hot, partitions=PARTITIONS, conf=conf, jars=jars, scheme=scheme)


def by_load(method: Method) -> bool:
    """Return whether a method places by load."""
    return method.agent and method.name != EVEN


@contextmanager
def at_rest(pipeline: Pipeline, method: Method, period_s: float, costs: Placement = BY_LOAD) -> Iterator[Pipeline]:
    """Yield a grown pipeline once its method has finished placing; the method stays active.

    Args:
        pipeline: The pipeline.
        method: The placement method.
        period_s: Seconds between two evaluations.
        costs: The spec's ``placement``, if it is placed by load.
    """
    if not by_load(method):
        pipeline.await_batches(SKIPPED_BATCHES, datetime.now(UTC))
        yield pipeline
        return
    placed = replace(pipeline, spec=placing(pipeline.spec, period_s, costs))
    with placed.controlled("live"):
        limit_s = (EVALUATIONS + PLANS * QUIET) * period_s
        wait_until(lambda: settled(placed), "a placement, or none worth while", limit_s, READ_S)
        yield placed


def placing(spec: PipelineSpec, period_s: float, costs: Placement = BY_LOAD) -> PipelineSpec:
    """Return a spec that places state partitions by load and keeps slots fixed."""
    fixed = Slots(min=MANY, max=MANY, start=MANY)
    return spec.model_copy(update={"slots": fixed, "placement": costs, "period_s": period_s})


def settled(pipeline: Pipeline) -> bool:
    """Return whether enough evaluations since the last plan (if any, then verified) found nothing to gain."""
    decisions = judged(pipeline)
    plans = [number for number, decision in enumerate(decisions) if decision.action is Action.APPLY]
    if not plans:
        return len(decisions) >= EVALUATIONS
    changes = pipeline.tables.reconfigurations.recent(pipeline.spec.name)
    verified = {change.decision_id for change in changes if change.achieved}
    return len(decisions) > plans[-1] + QUIET and decisions[plans[-1]].decision_id in verified


def judged(pipeline: Pipeline, since: datetime | None = None) -> Sequence[Decision]:
    """Return the decisions on settled telemetry, oldest first.

    Args:
        pipeline: The pipeline.
        since: Earlier decisions are left out.
    """
    recent = pipeline.tables.decisions.recent(pipeline.spec.name, limit=100)
    known = [d for d in reversed(recent) if d.signals is not None and not d.signals.settling]
    return [d for d in known if since is None or d.time >= since]


def measure(pipeline: Pipeline, batches: int) -> SteadyRun:
    """Return the result of the next batches of a pipeline at rest."""
    since = datetime.now(UTC)
    measured = pipeline.await_batches(batches, since)
    moves, loaded_mb = mean_moves(partition_runs(pipeline.tables.lake, pipeline.spec.name, since - STATE_SEEN), since)
    late = sum(decision.action is Action.APPLY for decision in judged(pipeline, since))
    return SteadyRun(median(batch.duration_s for batch in measured), moves, loaded_mb, late_plans=late)


def mean_moves(runs: Sequence[PartitionRun], since: datetime) -> tuple[float, float]:
    """Return how many partitions ran elsewhere than in the sampled batch before, and their state in MB; means.

    Args:
        runs: Sampled partitions in order of time, including some earlier ones for state sizes.
        since: Start of the counted time.
    """
    size = {(run.operator, run.partition): run.state_bytes for run in runs if run.state_bytes is not None}
    batches: dict[int, dict[tuple[int, int], str]] = {}
    for run in runs:
        if run.time >= since:
            batches.setdefault(run.batch_id, {})[run.operator, run.partition] = run.executor
    found = [on for _, on in sorted(batches.items())]
    steps = [[key for key in after if before.get(key) != after[key]] for before, after in pairwise(found)]
    if not steps:
        return 0.0, 0.0
    return mean(map(len, steps)), mean(sum(size.get(key, 0) for key in keys) / 1e6 for keys in steps)


def _with_plan(pipeline: Pipeline, found: SteadyRun) -> SteadyRun:
    decisions = judged(pipeline)
    for number, decision in enumerate(decisions, 1):
        plan = next((p.placement for p in decision.proposals if p.placement), None)
        if decision.action is Action.APPLY and plan is not None:
            changes = pipeline.tables.reconfigurations.recent(pipeline.spec.name)
            achieved = next((c.achieved for c in changes if c.decision_id == decision.decision_id), {})
            found = replace(found, plan=plan, achieved_s=achieved.get(STATEFUL_BATCH), evaluations=number)
            signals = decisions[-1].signals
            groups = None if signals is None else signals.partition_loads
            return found if groups is None else replace(found, distance=load_distance(busy_s(groups, plan.executors)))
    return found


def busy_s(groups: PartitionLoads, executors: Sequence[int]) -> list[float]:
    """Return how long a batch keeps each executor busy, seconds."""
    on = list(zip(groups.executor, groups.busy_s, strict=True))
    return [sum(needed_s for executor, needed_s in on if executor == number) for number in executors]


def load_distance(busy: Sequence[float]) -> float:
    """Return the largest deviation of an executor from the mean, % of the mean."""
    return 100 * max(abs(executor - mean(busy)) for executor in busy) / mean(busy)
