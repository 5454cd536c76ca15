"""A skewed stream on one running job: each method of placement repairs it, and executors that are to go are emptied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.algorithms import flow
from benchmarks.integrate.runs import SCRIPT, counts
from benchmarks.integrate.scripts.skewed_rows import rows_of_partitions
from millrace.model.decision import Decision, Proposal
from millrace.model.deployment import PLACEMENT, SLOTS
from millrace.model.placement import DRAINING
from tests.include.runtime.telemetry.arriving import arriving, table
from tests.jobs.adapting import IDLE, ON_CLUSTER, Adapting, SharedJob, adapting, embedded_cluster
from tests.jobs.driving import until

pytestmark = pytest.mark.platform

EXECUTORS, MOST, PARTITIONS, HOT, HOT_ROWS, COLD_ROWS = 3, 5, 9, (0, 3, 6), 20, 1
STAGE = "skewed/0"
PLACED = {STAGE: tuple(number % EXECUTORS for number in range(PARTITIONS))}
"""Partitions are on three executors in turn, so all hot ones are on the first: of 66 rows it has 60, and 22 after the
moves."""
LIGHTEST, SPREAD = 1, {STAGE: (0, 0, 0, 2, 2, 1, 2, 1, 1)}
"""The hot partitions are on executors 0 and 2, so executor 1 has the least to do."""
TRIGGER_S = 5.0
"""Batches have so many rows that hot partitions take far longer than what any partition costs."""
WAIT_MS, SLOW, RATE, TOO_FAST = 20.0, 30.0, 90.0, 140.0
"""The rate needs 164 % of the time of the first executor at first, and 60 % after the moves; 80 % is planned for.

The slow rate is not too much for it, and two executors are enough. The highest is too much for three.
Waits leave the processor free, and batches grow with the backlog, so a busy machine changes little.
"""
YAML = """\
name: skewed
script: {script}
args: [--source={folder}/in, --results={folder}/counts.json, --checkpoint={folder}/checkpoint, --wait-ms={wait_ms:g},
  "--hot={hot}", --hot-rows={hot_rows}, --cold-rows={cold_rows}, "--trigger-s={trigger_s:g}"]
max_parallelism: {partitions}
submit: {submit}
slots: {{min: {least}, max: {most}, start: {executors}}}
executor: {{cores: 1, memory_mb: 512}}
objective: {{max_lag_s: 200, catch_up_s: 600}}
tuner: {{options: {{contingencies: false, change_s: 0}}}}
mode: auto
period_s: 10
ready_deadline_s: 600
guards: {{cool_down_s: 0}}
quality: {{max_age_s: 1200, max_gap_s: 1200}}
verification: {{window_s: 0}}
placement: {{options: {options}}}
"""
METHODS: Mapping[str, Mapping[str, Any]] = {
    "balancer": {"method": "balancer"},
    "albic": {"method": "albic"},
    "joint": {"method": "joint", "cost": "state", "budget": 0.5},
}
"""Moves of three hot partitions cost more than half a move, and less than half a MB of state."""
CAPS: Mapping[str, Mapping[str, Any]] = {
    "busy": {"max_busy_ratio": 0.01},
    "memory": {"max_memory_mb": 0.000001},
}


class Skewed(SharedJob):
    """The job that all tests share."""

    def under(
        self,
        options: Mapping[str, Any],
        rows_per_s: float,
        placed: Mapping[str, tuple[int, ...]],
        least: int = EXECUTORS,
    ) -> Adapting:
        """Return the pipeline with options of placement, at this load, with partitions where a person put them."""
        return self.given(text(self.folder, options, least), rows_per_s, slots=EXECUTORS, placement=placed)


def text(folder: Path, options: Mapping[str, Any], least: int = EXECUTORS) -> str:
    """Return the pipeline's YAML."""
    return YAML.format(
        script=SCRIPT,
        folder=folder,
        submit=ON_CLUSTER,
        wait_ms=WAIT_MS,
        hot=",".join(map(str, HOT)),
        hot_rows=HOT_ROWS,
        cold_rows=COLD_ROWS,
        trigger_s=TRIGGER_S,
        partitions=PARTITIONS,
        executors=EXECUTORS,
        least=least,
        most=MOST,
        options=flow({"rest_s": 0, **options}),
    )


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Skewed]:
    """The first batches start Python: what they cost is no measure of throughput."""
    folder = tmp_path_factory.mktemp("skewed")
    results = folder / "counts.json"

    def total() -> int:
        return sum(counts(results))

    with pytest.MonkeyPatch.context() as monkeypatch, embedded_cluster(folder, monkeypatch):
        write = table(folder / "in")
        with adapting(folder / "skewed.yaml", text(folder, {})) as pipeline:
            with arriving(write, IDLE, every_s=1.0) as arrivals:
                until(lambda: total() >= 10 * IDLE, "rows in the results")
                yield Skewed(pipeline, arrivals, folder, total)
            until(lambda: total() == arrivals.rows[-1], f"{arrivals.rows[-1]} rows in the results")
    each_round = [HOT_ROWS if p in HOT else COLD_ROWS for p in range(PARTITIONS)]
    assert sorted(counts(results)) == sorted(rows_of_partitions(arrivals.rows[-1], each_round))


def placed_by(decision: Decision) -> Proposal:
    """Return what albic proposed; an empty proposal if it was not asked."""
    asked = (proposal for proposal in decision.proposals if proposal.optimizer == "albic")
    return next(asked, Proposal("albic", (), "not_asked", ""))


def executors_of(pipeline: Adapting, partitions: tuple[int, ...]) -> set[int]:
    """Return the executors on which partitions are placed."""
    return {pipeline.app().placement[STAGE][partition] for partition in partitions}


def changed_fields(pipeline: Adapting) -> set[str]:
    return {change.field for decision in pipeline.decisions for change in decision.changes}


def test_skewed_stream_is_repaired_by_placement_and_gets_no_slot(skewed: Skewed) -> None:
    pipeline = skewed.under({}, RATE, PLACED)
    pipeline.until(lambda: pipeline.app().placement != PLACED)
    moved = pipeline.decisions[-1]
    pipeline.until(lambda: bool(pipeline.achieved(moved)))

    print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
    assert changed_fields(pipeline) == {PLACEMENT}
    pipeline.await_slots()


@pytest.mark.parametrize("method", METHODS)
def test_method_of_placement_spreads_hot_partitions(skewed: Skewed, method: str) -> None:
    pipeline = skewed.under(METHODS[method], SLOW, PLACED)
    pipeline.until(lambda: pipeline.app().placement != PLACED)
    moved = pipeline.decisions[-1]
    pipeline.until(lambda: bool(pipeline.achieved(moved)))

    print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
    plan = placed_by(moved).placement
    assert plan is not None and plan.method == method
    assert len(executors_of(pipeline, HOT)) == EXECUTORS
    assert pipeline.achieved(moved)["moved_partitions"] == plan.moves
    assert pipeline.achieved(moved)["loaded_mb"] < 0.5
    assert changed_fields(pipeline) == {PLACEMENT}
    pipeline.await_slots()


@pytest.mark.parametrize("cap", CAPS)
def test_executors_stay_if_fewer_cannot_hold_the_state(skewed: Skewed, cap: str) -> None:
    pipeline = skewed.under({"worth": 1, **CAPS[cap]}, SLOW, SPREAD, least=EXECUTORS - 1)
    pipeline.until(lambda: any(decision.reason_code == "cannot_balance" for decision in pipeline.decisions))

    assert "cannot hold the state within the limits of placement.options" in pipeline.decisions[-1].sentence
    assert not pipeline.changes and pipeline.app().slots == EXECUTORS


def test_framework_that_is_not_integrated_adds_slots_first(skewed: Skewed) -> None:
    pipeline = skewed.under({"framework": "non_integrated"}, TOO_FAST, PLACED)
    pipeline.until(lambda: pipeline.app().slots > EXECUTORS)

    print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
    grown = pipeline.decisions[-1]
    assert {change.field for change in grown.changes} == {SLOTS, PLACEMENT}
    assert placed_by(grown).reason_code == "executors_changed"
    pipeline.await_slots()


def test_executors_that_are_to_go_are_emptied_within_the_budget(skewed: Skewed) -> None:
    pipeline = skewed.under({"drain_mb": 0, "budget": 2, "worth": 1}, SLOW, SPREAD, least=EXECUTORS - 1)
    pipeline.until(lambda: pipeline.app().slots < EXECUTORS)

    print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
    drains = [decision for decision in pipeline.decisions if placed_by(decision).reason_code == DRAINING]
    assert drains and all(len(decision.changes) <= 2 for decision in drains)
    assert all({change.field for change in decision.changes} == {PLACEMENT} for decision in drains)
    (left,) = {*range(EXECUTORS)} - executors_of(pipeline, tuple(range(PARTITIONS)))
    assert left == LIGHTEST
    pipeline.await_slots()
