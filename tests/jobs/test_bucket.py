"""A pipeline with its lake in a bucket: the driver reports there and follows decisions from there."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from millrace import wiring
from millrace.lake.commit_follower import CommitFollower
from millrace.model.decision import Action
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.adapting import adapting, embedded_cluster
from tests.jobs.driving import until
from tests.jobs.totals import HIGH, LOW, expected_totals, spec_text, total
from tests.s3.server import Bucket

pytestmark = pytest.mark.platform


def test_pipeline_with_its_lake_in_a_bucket_grows_and_shrinks_with_its_load(
    tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "totals.json"
    monkeypatch.setenv(wiring.LAKE_VARIABLE, s3.lake)
    with embedded_cluster(tmp_path, monkeypatch), ExitStack() as feed:
        arrivals = feed.enter_context(arriving(files(tmp_path / "in", "json"), LOW))
        with adapting(tmp_path / "totals.yaml", spec_text(tmp_path)) as pipeline:
            follower = CommitFollower(wiring.lake().log("telemetry/batches"), "totals")
            until(follower.advance, "telemetry in the bucket")
            pipeline.until(pipeline.knows_its_ability)
            arrivals.rows_per_s = HIGH
            pipeline.until(lambda: pipeline.app().slots > 2)
            arrivals.rows_per_s = LOW
            pipeline.until(lambda: pipeline.app().slots == 2)
            feed.close()
            rows = arrivals.rows[-1]
            until(lambda: total(results) == rows, f"{rows} rows in the results")
        recorded = wiring.control_tables().decisions.recent("totals", 1000)
    assert json.loads(results.read_text()) == expected_totals(rows)
    pipeline.assert_live()
    steps = [d.sentence for d in pipeline.decisions if d.action is Action.APPLY]
    assert all("(each batch reads everything available)" in sentence for sentence in steps), steps
    assert {d.decision_id for d in pipeline.decisions if d.action is Action.APPLY} <= {d.decision_id for d in recorded}
    assert not list((tmp_path / "lake").rglob("*"))
