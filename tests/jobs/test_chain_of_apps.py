"""Two plain scripts that a table joins, attached with one YAML: both follow the rate at the first."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from millrace.lake.source_tables import SourceTable
from millrace.model.decision import Action
from tests.include.runtime.telemetry.arriving import SCHEMA, arriving, table
from tests.jobs.adapting import Adapting, adapting, embedded_cluster
from tests.jobs.driving import SCRIPTS, until
from tests.jobs.totals import HIGH, LOW, expected_totals, total

pytestmark = pytest.mark.platform

BUDGET = 14
YAML = """\
name: chain
apps:
  copies: {{script: {scripts}/copies.py, args: [{folder}/in, {folder}/mid, {folder}/copied, "0.02"]}}
  totals: {{script: {scripts}/totals.py, args: [{folder}/mid, {folder}/totals.json, {folder}/counted, "0.02"]}}
slots: {{min: 2, max: 8, start: 2}}
executor: {{cores: 2, memory_mb: 512}}
objective: {{target_utilisation: 0.75, max_lag_s: 120}}
budget: {{slots: {budget}}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
tuner: {{options: {{change_s: 0, contingencies: false}}}}
ready_deadline_s: 600
"""


def test_both_apps_follow_the_rate_at_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "totals.json"
    with embedded_cluster(tmp_path, monkeypatch), ExitStack() as feed:
        SourceTable(tmp_path / "mid", SCHEMA, "test")  # a stream does not start on a table that does not exist
        arrivals = feed.enter_context(arriving(table(tmp_path / "in"), LOW / 2))
        text = YAML.format(scripts=SCRIPTS, folder=tmp_path, budget=BUDGET)
        with adapting(tmp_path / "chain.yaml", text) as pipeline:
            pipeline.until(lambda: knows_both(pipeline))
            arrivals.rows_per_s = HIGH
            pipeline.until(lambda: all(app.slots > 2 for app in pipeline.deployment().apps.values()))
            arrivals.rows_per_s = LOW / 2
            pipeline.until(lambda: all(app.slots == 2 for app in pipeline.deployment().apps.values()))
            feed.close()
            rows = arrivals.rows[-1]
            until(lambda: total(results) == rows, f"{rows} rows in the results")

    # usually one decision for both; on a busy machine, one of them may still settle when the other is sized
    grown = [decision for decision in pipeline.decisions if decision.action is Action.APPLY]
    print(*(decision.sentence for decision in grown), sep="\n")
    assert {change.app for decision in grown for change in decision.changes} == {"copies", "totals"}
    assert all(decision.target is not None and decision.target.slots <= BUDGET for decision in grown)
    linked = [d.signals.edges for d in pipeline.decisions if d.signals and d.signals.edges]
    assert {(edge.producer, edge.consumer) for edges in linked for edge in edges} == {("copies", "totals")}
    assert {(change.tier, change.generation) for change in pipeline.changes} == {("T1", 1)}, pipeline.changes
    assert json.loads(results.read_text()) == expected_totals(rows)


def knows_both(pipeline: Adapting) -> bool:
    signals = pipeline.decisions[-1].signals if pipeline.decisions else None
    settled = signals.settled if signals else ()
    return len(settled) == 2 and all(app.capacity is not None for app in settled)
