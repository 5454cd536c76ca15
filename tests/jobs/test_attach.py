"""Scripts that attach themselves to a pipeline: on a cluster, without one, twice, and where something is missing."""

from __future__ import annotations

import pytest

from millrace.model.decision import LIVE, RESTART
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.attaching import EVERY_S, NAME, ROWS_PER_S, Attached, here
from tests.jobs.attaching import attached as attached
from tests.jobs.standalone import standalone
from tests.jobs.totals import total

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_attached_script_gets_and_loses_executors_by_decisions(attached: Attached) -> None:
    with standalone(attached.folder) as master:
        log = attached.follow(here(), master, attached.decide)
    changes = attached.tables.reconfigurations.recent(NAME)
    assert {(c.tier, c.generation) for c in changes} == {(RESTART, 1), (LIVE, 1)}, changes
    assert "orders: attached as generation 1" in log
    assert "Traceback" not in log, log


def test_driver_without_executors_reports_and_is_only_advised(attached: Attached) -> None:
    with (
        arriving(files(attached.folder / "in", "json"), ROWS_PER_S, EVERY_S),
        attached.script(here(), "local[2]") as log,
    ):
        attached.await_telemetry(log)
        assert "telemetry and advice only: its master is local[2], which has no executors" in log.read_text()
        beat = attached.heartbeat()
        assert beat is not None and beat.driver.slots == 2
        with attached.script(here(), "local[1]", name="second", checkpoint="other") as other:
            refused = f"this driver is not attached, because {beat.driver.name} is"
            attached.until(other, lambda: refused in other.read_text(), "a refusal that names the first driver")
            results = attached.folder / "second.json"
            attached.until(other, lambda: total(results) > 0, "a job that goes on")
        newest = attached.heartbeat()
        assert newest is not None and newest.generation == beat.generation


@pytest.mark.parametrize(
    ("lake", "told"),
    [
        ("relative/folder", "orders: this driver is not attached."),
        ("s4://lake", "orders: this driver is not attached."),
        ("/proc/nowhere", "orders: this driver is not attached."),
    ],
)
def test_wrong_lake_is_named_and_the_job_goes_on(attached: Attached, lake: str, told: str) -> None:
    results = attached.folder / "driver.json"
    with (
        arriving(files(attached.folder / "in", "json"), ROWS_PER_S, EVERY_S),
        attached.script(here(), "local[1]", lake=lake) as log,
    ):
        attached.until(log, lambda: total(results) > 0, "a job that goes on")
        attached.until(log, lambda: told in log.read_text(), "what is wrong")
        assert "Traceback" not in log.read_text()
        line = next(line for line in log.read_text().splitlines() if told in line)
        assert line.endswith("The job continues."), line
