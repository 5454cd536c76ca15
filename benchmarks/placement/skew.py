"""A third of the keys in 3 of 32 partitions, two stages with state, four executors, a load that never changes."""

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
from millrace.lake.partitions import partition_runs
from millrace.model.decision import Action, Decision
from millrace.model.placement import STATEFUL_BATCH, KeyGroups, PlacementPlan
from millrace.model.placement_spec import Placement
from millrace.model.spec import PipelineSpec, Slots
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
"""By load, with other waits of a partition for the executor that has its state; 4 s is what pipelines get."""
WAIT_MS = 200.0
"""What a key costs a core: enough that waits and not this machine's two processors, which eight slots share, decide
how long a batch takes, and so little that a batch takes seconds, as those of most streams do."""
PARTITIONS = 32
"""With few of them, several hot ones included, what an executor can be given is so coarse that placements hardly
differ; Spark's own default is 200."""
BY_LOAD = Placement()
STATE_SEEN = timedelta(minutes=3)
"""How far the sizes of states are looked back for: drivers measure them once a minute."""
EVALUATIONS, QUIET = 12, 3
"""Evaluations in which a placement has to be found, and after it those that have to find nothing better."""
PLANS = 4
"""Plans that may follow each other until nothing better is found."""


@dataclass(frozen=True)
class SteadyRun:
    """What a method came to.

    Attributes:
        batch_s: Median batch time, seconds.
        moves: Partitions that ran elsewhere than in the sampled batch before, a sample.
        loaded_mb: State of these partitions, MB a sample.
        plan: What was planned; None where nothing was.
        achieved_s: Time of the stateful stages that was found afterwards, seconds; None where it was not.
        evaluations: Evaluations until the plan was made; None where none was.
        late_plans: Plans that were made in the measured batches.
        distance: Load distance that was found afterwards, % of the mean; None where nothing was planned.
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
    """Return what a method comes to after the growth from one executor to four.

    Args:
        cluster: Where.
        name: Name of the run, a folder.
        method: Who places.
        batches: How many batches are measured.
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
    """Run the query with hot partitions, and give it once it has grown from one executor to four: see ``grown``."""
    hot = ("--hot", f"--wait-ms={WAIT_MS:g}", *options)
    return grown(cluster, name, method, *hot, partitions=PARTITIONS, conf=conf, jars=jars, scheme=scheme)


def by_load(method: Method) -> bool:
    """Say whether a method places by load."""
    return method.agent and method.name != EVEN


@contextmanager
def at_rest(pipeline: Pipeline, method: Method, period_s: float, costs: Placement = BY_LOAD) -> Iterator[Pipeline]:
    """Give a pipeline that has grown when its method has placed what it places, and is still at work.

    Args:
        pipeline: The pipeline.
        method: Who places.
        period_s: Seconds between two evaluations.
        costs: The spec's ``placement``, where it is placed by load.
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
    """Return a spec by which state partitions are placed by load, and slots stay."""
    fixed = Slots(min=MANY, max=MANY, start=MANY)
    return spec.model_copy(update={"slots": fixed, "placement": costs, "period_s": period_s})


def settled(pipeline: Pipeline) -> bool:
    """Say whether enough evaluations found nothing to gain, since the last plan if there was one, which is verified."""
    decisions = judged(pipeline)
    plans = [number for number, decision in enumerate(decisions) if decision.action is Action.APPLY]
    if not plans:
        return len(decisions) >= EVALUATIONS
    changes = pipeline.tables.reconfigurations.recent(pipeline.spec.name)
    verified = {change.decision_id for change in changes if change.achieved}
    return len(decisions) > plans[-1] + QUIET and decisions[plans[-1]].decision_id in verified


def judged(pipeline: Pipeline, since: datetime | None = None) -> Sequence[Decision]:
    """Return the decisions on telemetry that was settled, oldest first.

    Args:
        pipeline: Whose.
        since: Those of before are left out.
    """
    recent = pipeline.tables.decisions.recent(pipeline.spec.name, limit=100)
    known = [d for d in reversed(recent) if d.signals is not None and not d.signals.settling]
    return [d for d in known if since is None or d.time >= since]


def measure(pipeline: Pipeline, batches: int) -> SteadyRun:
    """Return what the next batches of a pipeline at rest are like."""
    since = datetime.now(UTC)
    measured = pipeline.await_batches(batches, since)
    moves, loaded_mb = mean_moves(partition_runs(pipeline.tables.lake, pipeline.spec.name, since - STATE_SEEN), since)
    late = sum(decision.action is Action.APPLY for decision in judged(pipeline, since))
    return SteadyRun(median(batch.duration_s for batch in measured), moves, loaded_mb, late_plans=late)


def mean_moves(runs: Sequence[PartitionRun], since: datetime) -> tuple[float, float]:
    """Return how many partitions ran elsewhere than in the sampled batch before, and their state in MB; means.

    Args:
        runs: Sampled partitions in order of time, some from before, which tell how large states are.
        since: Begin of what counts.
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
            groups = decisions[-1].signals and decisions[-1].signals.key_groups
            return found if groups is None else replace(found, distance=load_distance(busy_s(groups, plan.workers)))
    return found


def busy_s(groups: KeyGroups, workers: Sequence[int]) -> list[float]:
    """Return the time that a batch keeps each worker busy with what is on it, seconds."""
    on = list(zip(groups.worker, groups.busy_s, strict=True))
    return [sum(needed_s for worker, needed_s in on if worker == number) for number in workers]


def load_distance(busy: Sequence[float]) -> float:
    """Return how far the worker that is farthest from the mean is off, % of that."""
    return 100 * max(abs(worker - mean(busy)) for worker in busy) / mean(busy)
