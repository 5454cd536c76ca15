from __future__ import annotations

import csv
import io
import json
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.model.backtest import Backtest, EvaluationResult, ReplayedEvaluation, Totals
from millrace.model.codec import from_json, to_json
from millrace.model.decision import Action
from millrace.model.errors import MillraceError
from millrace.reporting.replay_report import as_csv, check_file, log_replay, plain, replay_figure, summary, write_figure

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
HELD = EvaluationResult(2, 2, 2, 480.0, 900, Action.HOLD, "fits", "The slots fit.")
GREW = replace(HELD, decided=4, action=Action.APPLY, reason_code="under_provisioned", sentence="=More, at once")


def evaluation(
    minute: int, recorded: EvaluationResult, replayed: EvaluationResult, modelled: bool = False
) -> ReplayedEvaluation:
    return ReplayedEvaluation(NOON + timedelta(minutes=minute), 60.0, 500.0, recorded, replayed, modelled)


UNKNOWN = replace(HELD, throughput_rows_per_s=None, backlog_rows=None)
EVALUATIONS = (
    evaluation(1, HELD, HELD),
    evaluation(2, HELD, GREW),
    evaluation(3, UNKNOWN, replace(HELD, slots=4, running=4, decided=4, throughput_rows_per_s=900.0), True),
)
MADE = Backtest("replayed", "ds2", {"room": 0.8}, EVALUATIONS, Totals(0, 360.0, 2, 2), Totals(1, 480.0, 1, 4), 6.0)


def test_backtest_counts_agreed_and_modelled_evaluations() -> None:
    assert (MADE.agreed, MADE.modelled, len(MADE.figures)) == (1, 1, 11)
    assert MADE.figures["core_s_replayed"] == 480.0 and MADE.figures["peak_slots_recorded"] == 2
    assert EVALUATIONS[0].under_provisioned(HELD) and not EVALUATIONS[2].under_provisioned(UNKNOWN)
    assert from_json(Backtest, to_json(MADE)) == MADE


def test_summary_shows_every_figure_next_to_the_recorded_one() -> None:
    words = summary(MADE)
    for part in (
        "On 3 evaluations of replayed from 2013-01-01 12:01 to 2013-01-01 12:03 UTC, ds2",
        "same slots in 1, with 1 reconfiguration instead of 0",
        "480 core-seconds instead of 360 (+33%)",
        "1 evaluation with too few slots instead of 2",
        "at most 4 slots instead of 2. 1 evaluation is modelled",
    ):
        assert part in words
    assert "Every evaluation is as recorded." in summary(replace(MADE, evaluations=EVALUATIONS[:1]))


def test_table_has_a_row_per_evaluation_and_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(MADE))))
    assert [r["replayed_decided"] for r in rows] == ["2", "4", "4"]
    assert rows[1]["replayed_sentence"] == "'=More, at once" and rows[2]["recorded_backlog_rows"] == ""
    assert [k["modelled"] for k in plain(MADE)["evaluations"]] == [False, False, True]
    assert plain(MADE)["evaluations"][1]["replayed"]["action"] == "apply"


def test_replay_when_logged_then_its_run_has_everything(mlflow_home: Path) -> None:
    from mlflow import MlflowClient

    uri, artifacts = f"sqlite:///{mlflow_home / 'mlflow.db'}", (mlflow_home / "artifacts").as_uri()
    run_id = log_replay(uri, MADE, artifacts)
    assert run_id is not None
    client = MlflowClient(uri)
    run = client.get_run(run_id)
    assert client.get_experiment(run.info.experiment_id).name == "replayed"
    assert run.data.tags["kind"] == "replay" and run.info.status == "FINISHED"
    assert run.data.params["tuner"] == "ds2" and run.data.params["option.room"] == "0.8"
    assert run.data.metrics == {name: float(value) for name, value in MADE.figures.items()}
    files = {f.path for f in client.list_artifacts(run_id)}
    assert files == {"replay.json", "replay.csv", "replay.png"}
    stored = json.loads(Path(client.download_artifacts(run_id, "replay.json")).read_text())
    assert stored == json.loads(json.dumps(plain(MADE)))
    assert log_replay(uri, MADE, artifacts) != run_id, "each replay is a run of its own"


def test_replay_without_mlflow_is_not_logged_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert log_replay(f"http://127.0.0.1:{server.getsockname()[1]}", MADE) is None
    assert "the replay is only partly logged" in caplog.text
    assert log_replay(None, MADE) is None


def test_figure_shows_both_courses_and_what_is_modelled() -> None:
    rates, slots, waiting = replay_figure(MADE).axes
    recorded, replayed = (list(line.get_ydata()) for line in slots.lines[:2])
    assert (recorded, replayed) == ([2, 2, 2], [2, 4, 4])
    assert rates.get_ylim()[1] > 900
    assert [len(axes.patches) for axes in (rates, slots, waiting)] == [1, 1, 1]
    assert not replay_figure(replace(MADE, evaluations=EVALUATIONS[:2])).axes[0].patches


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.PDF"])
def test_figure_when_written_then_is_a_file_of_that_kind(tmp_path: Path, name: str) -> None:
    check_file(tmp_path / name)
    write_figure(MADE, tmp_path / name)
    assert (tmp_path / name).stat().st_size > 2000


@pytest.mark.parametrize("name", ["a.txt", "a", "nowhere/a.png"])
def test_figure_with_an_impossible_file_fails_before_any_work(tmp_path: Path, name: str) -> None:
    with pytest.raises(MillraceError, match="--figure"):
        check_file(tmp_path / name)
