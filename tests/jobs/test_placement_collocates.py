"""State partitions that feed one another move to the same executor if bytes between executors cost much."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pytest

from benchmarks.placement.pairs import HOSTS
from millrace.lake.partition_runs import partition_runs
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.adapting import ON_CLUSTER, adapting, embedded_cluster
from tests.jobs.driving import SCRIPTS, until

pytestmark = pytest.mark.platform

RATE, PARTITIONS, EXECUTORS = 40.0, 6, 2
ASKS_S = 0.2
"""What the script waits per key of the second stage: each partition has one."""
REMOTE_S_PER_MB = 100.0
"""As if bytes between executors had to be paid for: a batch sends 4 KB to each partition of the second stage."""
PLACED = {f"paired/{stage}": tuple(number % EXECUTORS for number in range(PARTITIONS)) for stage in range(2)}
"""Partition n of the first stage feeds n + 1 of the second, so all pairs are apart."""
YAML = """\
name: paired
script: {script}
args: [{folder}/in, {folder}/sums.json, {folder}/checkpoint, "{asks_s}"]
max_parallelism: {partitions}
submit: {submit}
slots: {{min: {executors}, max: {executors}, start: {executors}}}
executor: {{cores: 1, memory_mb: 512}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
placement: {{options: {{rest_s: 0, budget: {partitions}, method: joint, remote_s_per_mb: {remote_s_per_mb}}}}}
"""


def text(folder: Path) -> str:
    """Return the pipeline's YAML."""
    submit = json.loads(ON_CLUSTER)
    return YAML.format(
        script=SCRIPTS / "paired_keys.py",
        folder=folder,
        submit=json.dumps({**submit, "conf": {**submit["conf"], **HOSTS}}),
        asks_s=ASKS_S,
        partitions=PARTITIONS,
        executors=EXECUTORS,
        remote_s_per_mb=REMOTE_S_PER_MB,
    )


def sums(results: Path) -> list[tuple[int, int]]:
    """Return the rows of each key, and the sum of their ids."""
    return [(rows, ids) for rows, ids in json.loads(results.read_text()).values()] if results.exists() else []


def test_partitions_move_to_the_executor_of_their_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, began = tmp_path / "sums.json", datetime.now(UTC)

    def total() -> int:
        return sum(rows for rows, _ in sums(results))

    with embedded_cluster(tmp_path, monkeypatch), ExitStack() as feed:
        arrivals = feed.enter_context(arriving(files(tmp_path / "in", "json"), RATE))
        with adapting(tmp_path / "paired.yaml", text(tmp_path)) as pipeline:
            until(lambda: total() > 0, "rows in the results")
            pipeline.force(placement=PLACED)
            apart = pipeline.deployment().version
            pipeline.until(lambda: pipeline.app().placement != PLACED)
            decision, together = pipeline.decisions[-1], pipeline.deployment().version
            pipeline.until(lambda: bool(pipeline.achieved(decision)))
            feed.close()
            until(lambda: total() == arrivals.rows[-1], f"{arrivals.rows[-1]} rows in the results")
            remote: dict[int, Counter[int]] = {apart: Counter(), together: Counter()}
            for run in partition_runs(pipeline.loop.tables.lake, pipeline.spec.name, began):
                remote.setdefault(run.version, Counter())[run.batch_id] += run.remote_bytes

    print(decision.sentence, remote)
    (plan,) = (proposal.placement for proposal in decision.proposals if proposal.placement)
    assert plan.stage.startswith("collocated")
    assert plan.near_before == 0 and plan.near_after == 1
    assert median(remote[together].values()) < median(remote[apart].values()) / 2
    assert {(change.tier, change.generation, change.downtime_s) for change in pipeline.changes} == {("T1", 1, 0.0)}
    assert sum(ids for _, ids in sums(results)) == sum(range(arrivals.rows[-1]))
