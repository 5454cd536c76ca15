"""A script whose batches hold one file, which is too little: Millrace lets them hold more, and the rows keep up."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from millrace.control.roll_back import lag_s
from millrace.model.decision import Outcome
from millrace.model.signals import AppSignals
from tests.include.runtime.telemetry.arriving import arriving, table
from tests.jobs.adapting import Adapting, adapting
from tests.jobs.driving import SCRIPTS, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RATE, FILE_S = 10.0, 4.0
FIXED_S, WAIT_S = 4.0, 0.01
"""A batch of one file takes at least 4.4 s, and a file arrives every 4 s."""
GOAL_S = 120.0
YAML = """\
name: limited
script: {script}
args: [{folder}/in, {folder}/counted.json, {folder}/checkpoint, "{fixed_s}", "{wait_s}"]
submit: {{master: local, tune_batches: true}}
slots: {{min: 2, max: 2, start: 2}}
objective: {{max_lag_s: {goal_s}}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
quality: {{max_age_s: 600, max_gap_s: 600}}
ready_deadline_s: 600
"""


def newest(pipeline: Adapting) -> AppSignals | None:
    signals = pipeline.decisions[-1].signals if pipeline.decisions else None
    return None if signals is None else signals.apps[0]


def limit(pipeline: Adapting) -> int:
    app = newest(pipeline)
    return 0 if app is None else app.batch_limits.get("maxFilesPerTrigger", 0)


def keeps_its_lag(pipeline: Adapting) -> bool:
    app = newest(pipeline)
    lag = None if app is None else lag_s(app)
    return app is not None and lag is not None and limit(pipeline) > 1 and lag < GOAL_S and app.healthy_batches > 0


def test_job_with_batches_of_one_file_gets_larger_ones_and_keeps_its_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    values = {"script": SCRIPTS / "limited.py", "folder": tmp_path, "goal_s": GOAL_S}
    counted = tmp_path / "counted.json"
    with ExitStack() as feed:
        arrivals = feed.enter_context(arriving(table(tmp_path / "in"), RATE, FILE_S))
        until(lambda: len(arrivals.rows) > 1, "a table to read")
        text = YAML.format(**values, fixed_s=FIXED_S, wait_s=WAIT_S)
        with adapting(tmp_path / "limited.yaml", text) as pipeline:
            pipeline.until(lambda: limit(pipeline) > 1)
            pipeline.until(lambda: keeps_its_lag(pipeline))
            feed.close()
            rows = arrivals.rows[-1]
            until(lambda: sum(json.loads(counted.read_text()).values()) == rows, f"{rows} rows are counted, each once")
    print(*(d.sentence for d in pipeline.decisions), sep="\n")
    raised = [c for d in pipeline.decisions for c in d.changes if c.field == "batch_limit"]
    assert raised and raised[0].before == 1 and raised[0].value > 1
    assert [(c.tier, c.outcome) for c in pipeline.changes] == [("T2", Outcome.READY)] * len(pipeline.changes)
    assert any(
        "maxFilesPerTrigger 1 -> " in d.sentence and "can then sustain" in d.sentence for d in pipeline.decisions
    )
