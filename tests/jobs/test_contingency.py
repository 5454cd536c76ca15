"""A rise between two evaluations: the driver's agent carries out the last evaluation's plan, and nothing is lost."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from millrace.model.contingency import describe
from millrace.model.decision import Action, Outcome
from millrace.model.deployment import Deployment
from tests.include.runtime.telemetry.arriving import arriving, table
from tests.jobs.adapting import adapting, embedded_cluster
from tests.jobs.driving import until
from tests.jobs.totals import LOW, expected_totals, spec_text, total

pytestmark = pytest.mark.platform


def first_rate(deployment: Deployment) -> float | None:
    """Return the rate above which more slots are planned; None if there is no such plan."""
    plan = deployment.contingencies
    return None if plan is None else next((line.above_rows_per_s for line in plan.lines), None)


def test_rise_between_evaluations_gets_the_planned_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "totals.json"
    with embedded_cluster(tmp_path, monkeypatch), ExitStack() as feed:
        write = table(tmp_path / "in")
        arrivals = feed.enter_context(arriving(write, LOW))
        with adapting(tmp_path / "totals.yaml", spec_text(tmp_path)) as pipeline:
            pipeline.until(lambda: first_rate(pipeline.deployment()) is not None)
            planned = pipeline.deployment()
            above = first_rate(planned)
            assert above is not None and planned.contingencies is not None
            risen = time.monotonic()
            arrivals.rows_per_s = 4 * above  # it arrives more slowly, as each chunk is a commit
            until(lambda: pipeline.deployment().author == "contingency", "slots without an evaluation")
            acted = pipeline.deployment()
            arrivals.rows_per_s = LOW
            print(f"{describe(planned.contingencies.lines)} {acted.reason} After {time.monotonic() - risen:.1f} s.")
            pipeline.until(lambda: any(c.to_version == acted.version and c.ended for c in pipeline.changes))
            print(f"Executors on record after {time.monotonic() - risen:.1f} s.")
            pipeline.until(lambda: pipeline.app().slots == 2)
            feed.close()
            rows = arrivals.rows[-1]
            until(lambda: total(results) == rows, f"{rows} rows in the results")

    assert acted.apps["totals"].slots > planned.apps["totals"].slots and acted.contingencies is None
    decision = pipeline.loop.tables.decisions.get(acted.decision_id or "")
    assert decision is not None and (decision.action, decision.reason_code) == (Action.APPLY, "contingency")
    (change,) = [c for c in pipeline.changes if c.to_version == acted.version]
    assert (change.tier, change.outcome, change.decision_id) == ("T1", Outcome.READY, decision.decision_id)
    pipeline.assert_live()
    assert json.loads(results.read_text()) == expected_totals(rows)
