from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.model.decision import Action, Decision, Proposal
from millrace.model.deployment import JOIN_WORKERS, SHED_RATIO, Change
from millrace.model.join import JoinSignals
from millrace.model.signals import AppSignals, Signals
from millrace.model.spec import PipelineSpec
from millrace.reporting.plan_figures import join_figure
from millrace.reporting.plans import FIGURE, join_metrics
from millrace.reporting.tracker import MlflowTracker, change_metrics

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
FOUND = JoinSignals(
    2, 8, 0.25, 100, 3600.0, (80, 70), 240, NOON, 60.0, 200, {"a": 90, "b": 10}, {"a": 5, "b": 0}, 12, 999
)
APP = AppSignals("air", 2, 2, False, 800.0, 480.0, 0, 0.0, 10, 8, 0.9, 0.5, 0.8, None)


def decision(join: JoinSignals | None, *changes: Change) -> Decision:
    signals = Signals("air", NOON - timedelta(seconds=60), NOON, 7, 1, (APP,), join=join)
    proposal = Proposal("esj", changes, "join_overloaded", "it is full", {"offered_ratio": 0.4})
    return Decision("d1", "air", NOON, Action.APPLY, "r", "s", signals, 1, (proposal,), proposal.predicted)


def test_metrics_of_a_join_are_settings_window_and_load() -> None:
    told = change_metrics(decision(FOUND))
    assert {name: value for name, value in told.items() if name.startswith("join_")} == {
        "join_workers": 2, "join_block_tuples": 8, "join_shed_ratio": 0.25, "join_window_tuples": 150,
        "join_tau_ratio": 0.75, "join_offered_tuples": 240, "join_offered_ratio": 1.2, "join_arrived_tuples": 100,
        "join_dropped_tuples": 5, "join_messages": 12, "join_message_bytes": 999,
    }  # fmt: skip
    assert told["predicted_offered_ratio"] == 0.4
    assert join_metrics(decision(None)) == {}


def test_metrics_of_an_unknown_count_are_none_and_never_0() -> None:
    lost = replace(FOUND, window_tuples=(80, None), offered=None, arrived={}, dropped={})
    told = join_metrics(decision(lost))
    unknown = {name for name, value in told.items() if value is None}
    assert unknown == {
        "join_window_tuples", "join_tau_ratio", "join_offered_tuples", "join_offered_ratio", "join_arrived_tuples",
        "join_dropped_tuples",
    }  # fmt: skip
    assert join_metrics(decision(replace(FOUND, window_tuples=(0, 0))))["join_window_tuples"] == 0


def test_figure_shows_windows_capacity_and_offered_load() -> None:
    (axes,) = join_figure(FOUND, 5).axes
    assert [bar.get_height() for bar in axes.patches] == [80, 70]
    assert [line.get_ydata()[0] for line in axes.lines] == [100, 120, 48]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert set(labels) == {"kept", "capacity 100", "offered 240: 120 a worker", "on 5 workers: 48"}
    assert axes.get_title(loc="left") == "2 workers to 5, blocks of 8, 25 % shed, window of 3,600 s"
    assert axes.get_xlim() == (0.5, 5.5)


def test_figure_of_a_join_draws_only_known_values() -> None:
    (axes,) = join_figure(replace(FOUND, window_tuples=(None, 70), offered=None), 2).axes
    heights = [bar.get_height() for bar in axes.patches]
    assert np.isnan(heights[0]) and heights[1] == 70
    assert [line.get_ydata()[0] for line in axes.lines] == [100]
    assert axes.get_title(loc="left").startswith("2 workers, blocks of 8")
    axes.figure.canvas.draw()


@pytest.mark.parametrize(
    ("join", "changes", "drawn"),
    [
        (FOUND, (Change("air", JOIN_WORKERS, 2, 5), Change("air", SHED_RATIO, 0.25, 0.0)), True),
        (FOUND, (Change("air", "slots", 2, 4),), False),
        (None, (Change("air", SHED_RATIO, 0.25, 0.0),), False),
    ],
    ids=["join", "slots", "unmeasured"],
)
def test_run_of_a_join_change_has_its_picture(
    mlflow_home: Path, join: JoinSignals | None, changes: tuple[Change, ...], drawn: bool
) -> None:
    from mlflow import MlflowClient

    tracker = MlflowTracker(f"sqlite:///{mlflow_home / 'mlflow.db'}", None, (mlflow_home / "artifacts").as_uri())
    made = replace(decision(join, *changes), decision_id=f"join-{bool(join)}-{len(changes)}-{drawn}")
    told: dict[str, Any] = {"name": "air", "script": "x.py"}
    run_id, _ = tracker.log_change(PipelineSpec.model_validate(told), made)
    assert run_id is not None
    client = MlflowClient(tracker.uri)
    assert (FIGURE in {f.path for f in client.list_artifacts(run_id)}) == drawn
    data = client.get_run(run_id).data
    assert ("join_tau_ratio" in data.metrics) == (join is not None)
    if drawn:
        assert data.params["air.join_workers"] == "2 -> 5" and data.params["air.shed_ratio"] == "0.25 -> 0.0"
