"""A pipeline that starts in a quiet night gives back executors, although its batches show no throughput."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.include.runtime.telemetry.arriving import arriving, table
from tests.jobs.adapting import ON_CLUSTER, adapting, embedded_cluster
from tests.jobs.driving import SCRIPTS, until
from tests.jobs.totals import WAIT_S, expected_totals, total

pytestmark = pytest.mark.platform

QUIET = 0.5
"""Rows per second: a batch has a row or none."""
YAML = """\
name: totals
script: {script}
args: [{folder}/in, {folder}/totals.json, {folder}/checkpoint, "{wait_s}"]
submit: {submit}
slots: {{min: 1, max: 4, start: 3}}
max_parallelism: 6
executor: {{cores: 1, memory_mb: 512}}
objective: {{max_lag_s: 120}}
mode: auto
period_s: 5
guards: {{cool_down_s: 0}}
quality: {{max_age_s: 1200, max_gap_s: 1200}}
verification: {{window_s: 0}}
ready_deadline_s: 600
"""


def test_quiet_pipeline_gives_back_executors_until_the_fewest_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "totals.json"
    text = YAML.format(script=SCRIPTS / "totals.py", folder=tmp_path, wait_s=WAIT_S, submit=ON_CLUSTER)
    write = table(tmp_path / "in")
    with embedded_cluster(tmp_path, monkeypatch), adapting(tmp_path / "totals.yaml", text) as pipeline:
        with arriving(write, QUIET, every_s=1.0) as arrivals:
            pipeline.until(lambda: pipeline.app().slots == 1)
            pipeline.await_slots()
        until(lambda: total(results) == arrivals.rows[-1], "all rows in the results")
    print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
    reasons = [d.reason_code for d in pipeline.decisions if d.changes]
    assert reasons == ["nearly_empty"] * 2
    assert json.loads(results.read_text()) == {
        key: totals for key, totals in expected_totals(arrivals.rows[-1]).items() if totals[0]
    }
