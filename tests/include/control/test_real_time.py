"""A query in Spark's real-time mode: its tasks run all the time, so it is not sized and keeps a slot for each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.collect import collect
from millrace.control.evaluation import Request
from millrace.control.new_observations import new_observations
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import Action
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from tests.include.control.synthetic import App, lake_of, spec
from tests.include.control.world import World, world


@pytest.fixture
def w(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = world(tmp_path, guards={"cool_down_s": 0})
    made.run(slots=6)
    made.plant.arrival = 10.0
    observe = made.plant.observe

    def in_real_time(since: Cursor) -> Signals:
        signals = observe(since)
        return replace(signals, apps=(replace(signals.apps[0], running_tasks=5),))

    monkeypatch.setattr(made.plant, "observe", in_real_time)
    return made


def test_query_in_real_time_mode_is_not_sized_and_the_decision_says_so(w: World) -> None:
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code) == (Action.HOLD, "real_time")
    needs = "its 5 tasks run all the time and need 5 slots"
    assert decision.sentence == f"delays runs in real-time mode, which Millrace does not size: {needs}."


@pytest.mark.parametrize(("slots", "action"), [(4, Action.VETO), (5, Action.APPLY), (8, Action.APPLY)])
def test_person_can_resize_it_but_not_below_its_running_tasks(w: World, slots: int, action: Action) -> None:
    request = Request(forced_slots=slots, requested_by="me")
    decision = w.loop.decide(w.loop.observe(request), request)
    assert decision.action is action
    if action is Action.VETO:
        assert "delays runs 5 tasks all the time in real-time mode" in decision.sentence


def test_batches_as_long_as_the_interval_give_no_capacity(tmp_path: Path) -> None:
    rows = App().run(200, lambda t: 900 + 5 * t if t < 100 else 1000)
    now = rows[-1].time + timedelta(seconds=1)
    signals = []
    for name, tasks in (("micro", None), ("real", 4)):
        lake = lake_of(tmp_path / name, [replace(row, running_tasks=tasks) for row in rows])
        signals.append(collect(spec(), ControlTables(lake), Cursor(), now))
    micro, real = signals
    assert micro.apps[0].running_tasks is None and len(new_observations(micro)) == 1
    assert real.apps[0].running_tasks == 4 and real.apps[0].capacity is None and new_observations(real) == ()
