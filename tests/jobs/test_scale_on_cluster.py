"""A plain script on JSON files, attached with one YAML, follows its load on executors of the embedded cluster."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from include.model.decision import Action, Outcome
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.adapting import adapting, embedded_cluster, expected_totals, total
from tests.jobs.driving import SCRIPTS, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S = 0.02
"""What the script waits a row: a slot can process 50 rows/s."""
LOW, HIGH = 30.0, 220.0
YAML = """\
name: totals
script: {script}
args: [{folder}/in, {folder}/totals.json, {folder}/checkpoint, "{wait_s}"]
submit: {{master: embedded}}
slots: {{min: 2, max: 8, start: 2}}
executor: {{cores: 2, memory_mb: 512}}
objective: {{target_utilisation: 0.75, max_lag_s: 20}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
"""


def test_script_on_json_files_grows_and_shrinks_with_its_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = YAML.format(script=SCRIPTS / "totals.py", folder=tmp_path, wait_s=WAIT_S)
    results = tmp_path / "totals.json"
    with embedded_cluster(tmp_path, monkeypatch), ExitStack() as feed:
        arrivals = feed.enter_context(arriving(files(tmp_path / "in", "json"), LOW))
        with adapting(tmp_path / "totals.yaml", text) as pipeline:
            pipeline.until(pipeline.knows_its_ability)
            arrivals.rows_per_s = HIGH
            pipeline.until(lambda: pipeline.app().slots > 2)
            arrivals.rows_per_s = LOW
            pipeline.until(lambda: pipeline.app().slots == 2)
            feed.close()
            rows = arrivals.rows[-1]
            until(lambda: total(results) == rows, f"{rows} rows in the results")
    assert json.loads(results.read_text()) == expected_totals(rows)

    assert {(c.tier, c.outcome, c.generation) for c in pipeline.changes} == {("T1", Outcome.READY, 1)}
    steps = [d.sentence for d in pipeline.decisions if d.action is Action.APPLY]
    assert all("rows/s arrive (each batch takes all there is)" in sentence for sentence in steps), steps
