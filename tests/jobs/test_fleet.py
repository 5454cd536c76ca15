"""A function and a YAML: when rates rise, drivers come and streams move to them; when they fall, both go back."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from millrace import wiring
from millrace.lake.source_tables import is_table
from millrace.model.decision import Action
from millrace.model.deployment import INGEST
from millrace.run_folder.driver_records import ENDED
from tests.include.runtime.telemetry.arriving import arriving, ids, table
from tests.jobs.adapting import adapting, embedded_cluster
from tests.jobs.driving import SCRIPTS, until

pytestmark = pytest.mark.platform

STREAMS = ("a", "b", "c", "d", "e", "f")
NIGHT, DAY = 6.0, 22.0
"""Rows per second and stream: all streams fit on one node at night, and need three in the day."""
YAML = """\
name: fleet
fleet:
  script: {scripts}/fleet.py
  checkpoints: {folder}/checkpoints
  streams: {{folders: "{folder}/in/*"}}
  nodes: {{min: 1, max: 3, start: 2}}
  node: {{slots: 2, memory_mb: 1024, capacity: 60}}
  options: {{root: "{folder}", trigger: 3 seconds}}
admission: {{report_s: 10, options: {{ahead: 6}}}}
submit: {{master: local}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
quality: {{max_age_s: 600, max_gap_s: 600}}
ready_deadline_s: 600
"""


def test_drivers_come_and_go_with_the_rates_of_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded_cluster(tmp_path, monkeypatch), ExitStack() as feeds:
        arrivals = {name: feeds.enter_context(arriving(table(tmp_path / "in" / name), NIGHT, 2.0)) for name in STREAMS}
        with adapting(tmp_path / "fleet.yaml", YAML.format(scripts=SCRIPTS, folder=tmp_path)) as pipeline:
            assert dict(pipeline.deployment().ingest) == {name: n % 2 for n, name in enumerate(STREAMS)}

            reconciler = wiring.own_reconciler(pipeline.spec, wiring.control_tables())

            def running(nodes: int) -> bool:
                reconciler.reconcile()
                serving = {d.app for d in reconciler.status() if d.ready_at is not None and d.state not in ENDED}
                return len(pipeline.deployment().entered) == len(serving) == nodes

            pipeline.until(lambda: all(is_table(tmp_path / "out" / name) for name in STREAMS))
            pipeline.until(lambda: running(1))
            for name in STREAMS:
                arrivals[name].rows_per_s = DAY
            pipeline.until(lambda: running(3))
            for name in STREAMS:
                arrivals[name].rows_per_s = NIGHT
            pipeline.until(lambda: running(1))
            feeds.close()
            rows = {name: arrivals[name].rows[-1] for name in STREAMS}
            out = tmp_path / "out"
            until(lambda: all(ids(out / name) == list(range(rows[name])) for name in STREAMS), "all rows, once")

    moved = [d for d in pipeline.decisions if d.action is Action.APPLY and any(c.field == INGEST for c in d.changes)]
    print(*(decision.sentence for decision in moved), sep="\n")
    assert len(moved) >= 3
    assert {change.generation for change in pipeline.changes if change.app == "node0"} <= {1}, "node0 was restarted"
