"""An attached script on each version of Spark: telemetry, 1 -> 3 -> 1 executors, placement, an exact result."""

from __future__ import annotations

import pytest

from millrace.runtime.spark_versions import TESTED
from tests.jobs.attaching import Attached
from tests.jobs.attaching import attached as attached
from tests.jobs.spark_environments import environment
from tests.jobs.standalone import standalone

pytestmark = pytest.mark.versions


@pytest.mark.parametrize("version", TESTED)
def test_attached_script_is_measured_resized_and_placed(attached: Attached, version: str) -> None:
    found = environment(version)
    with standalone(attached.folder, found.spark, found.variables) as master:
        log = attached.follow(found, master, attached.deploy)
    beat = attached.heartbeat()
    assert beat is not None and beat.driver.spark == version
    assert f"Running Spark version {version}" in log
    assert "Traceback" not in log and "could not measure" not in log, log
