from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.soak.app import BATCH_S, EndlessApp
from benchmarks.soak.bench import LIMIT, SoakedLoop, warm_and_end
from millrace.control.batch_history import read_batches
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.decision import Action
from millrace.model.spec import PipelineSpec

MIDNIGHT = datetime(2013, 1, 1, tzinfo=UTC)
SPEC = PipelineSpec.model_validate(
    {
        "name": "soak",
        "script": "app.py",
        "mode": "auto",
        "submit": {"master": "embedded"},
        "max_parallelism": 8,
        "slots": {"min": 1, "max": 8, "start": 4},
        "period_s": 60,
    }
)


def test_app_that_never_ends_is_resized_through_its_agent(tmp_path: Path) -> None:
    tables = ControlTables(Lake(tmp_path / "lake"))
    soaked = SoakedLoop(tmp_path, SPEC, EndlessApp(SPEC, tables, MIDNIGHT))
    for _ in range(4):
        soaked.app.run_minute()
        soaked.evaluate()
    applied = [d for d in tables.decisions.recent("soak") if d.action is Action.APPLY]
    planned = [version for _, version in tables.deployments.versions("soak", 100) if version.origin is not None]
    assert applied and soaked.app.slots < 4 and soaked.app.version == 1 + len(applied) + len(planned)
    assert {batch.slots for batch in read_batches(tables.lake, "soak", "soak", soaked.app.now)} == {4, soaked.app.slots}
    assert soaked.app.batch == 4 * 60 / BATCH_S
    soaked.upkeep()


@pytest.mark.parametrize(
    ("sizes", "at_once", "holds"),
    [
        ([90, 100, 103, 104, 102], 1, True),
        ([90, 100, 130, 112, 105], 1, False),
        ([50, 100, 100, 101, 102, 103], 3, True),
        ([50, 100, 100, 101, 300, 100], 3, True),  # a child for a moment
        ([50, 100, 100, 110, 120, 130], 3, False),
    ],
)
def test_memory_is_compared_with_a_warm_process(sizes: list[float], at_once: int, holds: bool) -> None:
    begin, end = warm_and_end(sizes, 1, at_once)
    assert (end / begin <= LIMIT) is holds
