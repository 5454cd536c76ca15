"""A query that runs every two minutes is measured, and gets the slots that it needs."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from millrace.model.decision import Action
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.adapting import adapting
from tests.jobs.driving import SCRIPTS, until
from tests.jobs.totals import expected_totals, total

pytestmark = pytest.mark.platform

TRIGGER_S = 120
RATE, WAIT_S = 45.0, 0.02
"""A slot can process 50 rows/s, so a batch of one slot takes nearly as long as its trigger allows."""
YAML = """\
name: totals
script: {script}
args: [{folder}/in, {folder}/totals.json, {folder}/checkpoint, "{wait_s}", "{trigger_s} seconds"]
submit: {{master: local}}
slots: {{min: 1, max: 3, start: 1}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
tuner: {{options: {{change_s: 0}}}}
ready_deadline_s: 600
"""


def test_query_with_a_slow_trigger_is_sized_after_a_few_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    results = tmp_path / "totals.json"
    text = YAML.format(script=SCRIPTS / "totals.py", folder=tmp_path, wait_s=WAIT_S, trigger_s=TRIGGER_S)
    with ExitStack() as feed:
        arrivals = feed.enter_context(arriving(files(tmp_path / "in", "json"), RATE, every_s=1.0))
        with adapting(tmp_path / "totals.yaml", text) as pipeline:
            pipeline.until(lambda: pipeline.app().slots > 1)
            feed.close()
            rows = arrivals.rows[-1]
            until(lambda: total(results) == rows, f"{rows} rows in the results")
    assert json.loads(results.read_text()) == expected_totals(rows)
    print(*(d.sentence for d in pipeline.decisions), sep="\n")
    assert "data_quality" not in {d.reason_code for d in pipeline.decisions}
    step = next(d for d in pipeline.decisions if d.action is Action.APPLY)
    assert step.signals is not None and step.signals.trigger_s == TRIGGER_S
    (app,) = step.signals.apps
    assert app.arrival_rows_per_s == pytest.approx(RATE, rel=0.2)
