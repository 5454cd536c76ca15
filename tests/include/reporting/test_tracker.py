from __future__ import annotations

import json
import socket
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.lake.report_problems import ReportProblemStore
from millrace.lake.store import Lake
from millrace.model.codec import from_plain
from millrace.model.decision import Action, Decision, Proposal
from millrace.model.deployment import Change
from millrace.model.signals import AppSignals, Capacity, Signals
from millrace.model.spec import PipelineSpec
from millrace.reporting.mlflow_client import CHAMPION, MATERIAL_RATIO, level_means, material
from millrace.reporting.tracker import MlflowTracker

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
SPEC = PipelineSpec.model_validate({"name": "delays", "script": "x.py", "tuner": {"options": {"top_k": 3}}})
LEVELS = (1.0, 2.0, 3.0, 4.0)


def surrogate(training: Any) -> Any:
    import numpy as np
    from skopt.learning import GaussianProcessRegressor
    from skopt.learning.gaussian_process.kernels import ConstantKernel, Matern

    x = np.log(np.asarray(training["parallelism"]))[:, None]
    model = GaussianProcessRegressor(ConstantKernel(1.0) * Matern(nu=2.5), noise=0.01, normalize_y=True)
    return model.fit(x, np.log(np.asarray(training["throughput"])))


def decision(number: int, at_four: float = 900.0) -> Decision:
    app = AppSignals(
        "delays", 2, 2, False, 800.0, 480.0, 1200, 20.0, 10, 8, 0.9, 0.5, 0.8, Capacity(2, 0.4, 480.0, 5.0, 20)
    )
    signals = Signals("delays", NOON - timedelta(seconds=60), NOON, 7, 1, (app,))
    proposal = Proposal(
        "flow",
        (Change("delays", "slots", 2, 4),),
        "under_provisioned",
        "4 slots are just enough",
        {"throughput_rows_per_s": at_four},
        {
            "parallelism": LEVELS,
            "mean": (240.0, 480.0, 700.0, at_four),
            "low": (200.0, 450.0, 600.0, 800.0),
            "high": (280.0, 510.0, 800.0, 1000.0),
        },
        {"parallelism": (1.0, 2.0, 4.0), "throughput": (240.0, 480.0, at_four)},
    )  # fmt: skip
    return Decision(
        f"20130101T12000{number}-abcd0123", "delays", NOON, Action.APPLY, "under_provisioned", "delays: slots 2 -> 4",
        signals, 1, (proposal,), proposal.predicted, config_hash="beef",
    )  # fmt: skip


@pytest.fixture(scope="module")
def tracker(mlflow_home: Path) -> MlflowTracker:
    return MlflowTracker(f"sqlite:///{mlflow_home / 'mlflow.db'}", surrogate, (mlflow_home / "artifacts").as_uri())


def client(tracker: MlflowTracker) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracker.uri, registry_uri=tracker.uri)


def test_run_of_a_change_has_all_data_and_links_the_decision(tracker: MlflowTracker) -> None:
    made = decision(1)
    run_id, models = tracker.log_change(SPEC, made)
    assert run_id is not None and models == {"millrace-delays-delays": "1"}
    run = client(tracker).get_run(run_id)
    assert client(tracker).get_experiment(run.info.experiment_id).name == "delays"
    assert run.data.tags["millrace.decision_id"] == made.decision_id and run.info.status == "FINISHED"
    params, metrics = run.data.params, run.data.metrics
    assert (params["delays.slots"], params["option.top_k"], params["config_hash"]) == ("2 -> 4", "3", "beef")
    assert (params["base_version"], params["reason"], params["tuner"]) == ("1", "under_provisioned", "flow")
    assert metrics["arrival_rows_per_s"] == 800 and metrics["backlog_rows"] == 1200
    assert metrics["rate_to_serve_rows_per_s"] == 820 and metrics["predicted_throughput_rows_per_s"] == 900
    assert metrics["utilisation_ratio"] == pytest.approx(800 / 480)
    files = {f.path for f in client(tracker).list_artifacts(run_id)}
    assert {"signals.json", "decision.json", "curve-flow.png"} <= files
    folder = Path(client(tracker).download_artifacts(run_id, "decision.json"))
    assert from_plain(Decision, json.loads(folder.read_text())) == made
    picture = Path(client(tracker).download_artifacts(run_id, "curve-flow.png")).read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000


def test_change_logged_again_creates_no_second_run(tracker: MlflowTracker) -> None:
    first = tracker.log_change(SPEC, decision(2))
    assert tracker.log_change(SPEC, decision(2)) == first


def test_surrogate_gets_a_version_when_its_data_moves(
    tracker: MlflowTracker,
) -> None:
    name = "millrace-delays-delays"
    before = int(tracker.log_change(SPEC, decision(3))[1][name])
    assert tracker.log_change(SPEC, decision(4, at_four=905.0))[1] == {name: str(before)}
    assert tracker.log_change(SPEC, decision(5, at_four=700.0))[1] == {name: str(before + 1)}
    assert client(tracker).get_model_version_by_alias(name, CHAMPION).version == before + 1


def test_surrogate_loads_by_alias_and_holds_no_pickle(tracker: MlflowTracker) -> None:
    import numpy as np
    from mlflow import sklearn as flavour

    tracker.log_change(SPEC, decision(6, at_four=1200.0))
    model = flavour.load_model(f"models:/millrace-delays-delays@{CHAMPION}")
    assert np.exp(model.predict(np.log([[4.0]])))[0] == pytest.approx(1200.0, rel=0.1)
    stored = Path(str(tracker.artifacts).removeprefix("file://"))
    assert list(stored.rglob("*.skops"))
    for file in (f for f in stored.rglob("*") if f.is_file()):
        assert file.suffix not in (".pkl", ".pickle", ".joblib"), file
    with zipfile.ZipFile(next(stored.rglob("*.skops"))) as parts:
        assert {Path(name).suffix for name in parts.namelist()} <= {".json", ".npy"}


def test_later_achieved_values_join_the_same_run(tracker: MlflowTracker) -> None:
    run_id, _ = tracker.log_change(SPEC, decision(7))
    assert tracker.log_achieved(run_id, {"throughput_rows_per_s": 870.0})
    assert client(tracker).get_run(run_id).data.metrics["achieved_throughput_rows_per_s"] == 870.0


def test_change_whose_surrogate_cannot_be_fitted_keeps_its_run(tracker: MlflowTracker) -> None:
    def fails(training: Any) -> Any:
        raise ValueError("singular")

    made = replace(decision(8, at_four=2000.0), pipeline="other")
    run_id, models = replace(tracker, fit=fails).log_change(SPEC.model_copy(update={"name": "other"}), made)
    assert run_id is not None and models == {}


@pytest.mark.parametrize("listening", [False, True], ids=["nobody listens", "never answers"])
def test_change_without_mlflow_returns_nothing_and_raises_nothing(
    listening: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listening:
            server.listen()
        lost = MlflowTracker(f"http://127.0.0.1:{server.getsockname()[1]}", surrogate)
        assert lost.log_change(SPEC, decision(9)) == (None, {})
        assert not lost.log_achieved("run", {"x": 1.0})
    assert "decision 20130101T120009-abcd0123 is only partly logged" in caplog.text


def test_change_after_its_experiment_was_deleted_restores_it(tracker: MlflowTracker) -> None:
    made = replace(decision(1), pipeline="deleted")
    spec = SPEC.model_copy(update={"name": "deleted"})
    before, _ = tracker.log_change(spec, made)
    client(tracker).delete_experiment(client(tracker).get_experiment_by_name("deleted").experiment_id)
    after, _ = tracker.log_change(spec, replace(made, decision_id="another"))
    assert after is not None and before != after
    assert {client(tracker).get_run(str(run)).info.lifecycle_stage for run in (before, after)} == {"active"}


def test_problem_with_mlflow_is_noted_until_a_report_arrives(tracker: MlflowTracker, tmp_path: Path) -> None:
    problems, clock = ReportProblemStore(Lake(tmp_path)), iter(NOON + timedelta(minutes=n) for n in range(9))
    note: Any = lambda problem: problems.note("delays", problem, next(clock))  # noqa: E731
    lost = MlflowTracker("nowhere://mlflow", note=note)
    assert lost.log_change(SPEC, decision(1)) == (None, {})
    first = problems.current("delays")
    assert first is not None and first.time == NOON and first.problem
    assert not lost.log_achieved("run", {"x": 1.0}) and lost.log_change(SPEC, decision(2)) == (None, {})
    assert problems.current("delays") == first and problems.current("other") is None
    assert replace(tracker, note=note).log_change(SPEC, decision(3))[0] is not None
    assert problems.current("delays") is None


def test_tracker_without_a_uri_logs_nothing() -> None:
    assert MlflowTracker(None).log_change(SPEC, decision(1)) == (None, {})


@given(st.floats(1, 1e6), st.floats(-0.3, 0.3))
def test_material_if_a_level_moves_by_more_than_the_limit(throughput: float, move: float) -> None:
    moved = throughput * (1 + move)
    assert material({"2": throughput}, {"2": moved}) == (abs(moved - throughput) > MATERIAL_RATIO * throughput)
    assert material({"2": throughput}, {"2": throughput, "4": moved})


def test_level_means_when_levels_repeat_then_are_averaged() -> None:
    points = {"parallelism": (2.0, 1.0, 2.0), "throughput": (10.0, 7.0, 20.0)}
    assert level_means(points) == {"1": 7.0, "2": 15.0}
