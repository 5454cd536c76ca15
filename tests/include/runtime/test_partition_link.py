"""A driver's link: maps come from the newest Deployment, and samples are there before the batches that they are of."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from millrace.lake.deployments import DeploymentStore
from millrace.lake.row_codec import key_sample_from_row
from millrace.lake.store import Lake
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.errors import MillraceError
from millrace.model.key_map import HotKey, KeyMap, KeySample
from millrace.model.telemetry import BatchMetrics
from millrace.run_folder.arguments import DriverArguments
from millrace.runtime.partition_link import PartitionLink
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.host import HostCpu
from millrace.runtime.telemetry.writer import Entry, Writer

MAP = KeyMap(2, ("area",), 4, hot={17: {0: 0.5, 3: 0.5}}, moved={9: 1})


def arguments(root: Path) -> DriverArguments:
    lake = str(root / "lake")
    return DriverArguments("p", "a", 3, 1, 4, 0, root / "run", lake, 60.0, 120.0, 30.0, root / "script.py")


def test_link_reads_the_newest_map_and_slots(tmp_path: Path) -> None:
    link = PartitionLink(arguments(tmp_path), lambda sample: None)
    assert link.newest("areas") == (None, None)
    store, apps = DeploymentStore(Lake(tmp_path / "lake")), {"a": AppDeployment("s.py", (), 4, 1024, 8)}
    store.commit(Deployment("p", 1, True, apps), None)
    assert link.newest("areas") == (None, 4)
    store.commit(Deployment("p", 1, True, apps, partitioning={"areas": MAP}), 1)
    assert link.newest("areas") == (MAP, 4) and link.newest("cars") == (None, 4)
    store.commit(Deployment("p", 1, True, {"b": apps["a"]}), 2)
    assert link.newest("areas") == (None, None)


def test_link_says_that_the_lake_cannot_be_read(tmp_path: Path) -> None:
    link = PartitionLink(arguments(tmp_path), lambda sample: None)
    log = tmp_path / "lake" / "control" / "deployments" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("no JSON")
    with pytest.raises(MillraceError):
        link.newest("areas")


def test_samples_are_committed_before_the_batches(tmp_path: Path) -> None:
    samples: list[KeySample] = []
    hot = (HotKey(-5, "north", 40),)
    PartitionLink(arguments(tmp_path), samples.append).report("areas", ["area"], 4, None, 100, hot)
    (sample,) = samples
    assert (sample.pipeline, sample.app, sample.generation, sample.columns) == ("p", "a", 3, ("area",))
    writer = Writer(Lake(tmp_path / "lake"), AppIdentity("p", "a", 3, 1, 1), 3600, HostCpu())
    try:
        writer._committed_at = time.monotonic()  # the thread's own first commit would race with the test's
        writer.add_keys(sample)
        writer.add(Entry(BatchMetrics("p", "a", "q", datetime.now(UTC), 3, 0, 0, 1, 10), "checkpoint", 0))
        assert writer.flush()
    finally:
        writer.close()
    lake = Lake(tmp_path / "lake")
    (row,) = lake.rows("select * from keys", "telemetry/keys")
    assert key_sample_from_row(row) == sample
    keys, batches = (lake.committed_at(f"telemetry/{name}") for name in ("keys", "batches"))
    assert keys is not None and batches is not None and keys <= batches
