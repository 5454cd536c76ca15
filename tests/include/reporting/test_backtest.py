from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace import wiring
from millrace.control.evaluation import Request
from millrace.control.launch import launch, roll_back
from millrace.lake.decisions import DecisionStore
from millrace.lake.schemas import TABLES
from millrace.model.backtest import Backtest
from millrace.model.decision import Action, Decision, Memory, Proposal
from millrace.model.deployment import Change, Deployment
from millrace.model.errors import MillraceError
from millrace.model.protocols import Optimizer
from millrace.model.signals import Signals
from millrace.optimizers import registry
from millrace.optimizers.registry import create, names
from millrace.reporting.backtest import replay
from tests.include.control.recorded_run import DAY, PERIOD_S, Run, Steady, launched, spec_of, throughput
from tests.include.control.world import NAME, NOON

LATER = NOON + timedelta(days=2)


class Fixed:
    """Wants this number of slots, whatever the signals."""

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        now = current.apps[NAME].slots
        changes = () if now == self.slots else (Change(NAME, "slots", now, self.slots),)
        return Proposal("fixed", changes, "fixed", f"{self.slots} slots, always"), memory


class Broken:
    """Always fails."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        raise ZeroDivisionError("no rows")


def replayed(
    run: Run, optimizer: Optimizer, name: str = "steady", since: datetime | None = None, until: datetime = LATER
) -> Backtest:
    return replay(run.spec, run.tables, name, optimizer, {}, since, until)


def told(decisions: list[Decision]) -> list[tuple[str, str, str]]:
    return [(d.action.value, d.reason_code, d.sentence) for d in decisions]


def would(backtest: Backtest) -> list[tuple[str, str, str]]:
    return [(k.replayed.action.value, k.replayed.reason_code, k.replayed.sentence) for k in backtest.evaluations]


def decision_at(run: Run, time: datetime) -> Decision:
    return next(d for d in DecisionStore(run.lake).recent(NAME) if d.time == time)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A day with a tuner that acts at once, recorded by the live loop; tests only read it."""
    run = launched(tmp_path_factory.mktemp("day"), Steady())
    run.day()
    return run


def test_replay_of_the_same_tuner_repeats_every_decision(day: Run) -> None:
    made = replayed(day, Steady())
    assert would(made) == told([decision_at(day, k.time) for k in made.evaluations])
    assert (len(made.evaluations), made.agreed, made.modelled) == (len(DAY), len(DAY), 0)
    assert made.recorded == made.replayed
    assert made.recorded.reconfigurations >= 3 and made.downtime_s == 6.0


@pytest.mark.parametrize("name", names())
def test_replay_of_any_registered_tuner_repeats_the_live_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run = launched(tmp_path, create(name, {}), spec_of(name), DAY[:8])
    recorded = run.day()
    made = wiring.replay(run.spec, run.tables, name, {}, None, LATER)
    assert would(made) == told(recorded)
    assert made.modelled == 0 and made.agreed == len(recorded)


def test_replay_from_midway_uses_the_memory_of_that_time(day: Run) -> None:
    begin = NOON + timedelta(seconds=6 * PERIOD_S)
    made = replayed(day, Steady(), since=begin)
    assert made.evaluations[0].time == begin and len(made.evaluations) == len(DAY) - 5
    assert "evaluation 6," in made.evaluations[0].replayed.sentence
    assert made.agreed == len(made.evaluations) and made.modelled == 0


def test_replay_when_run_then_writes_nothing(day: Run) -> None:
    before = {table: day.lake.version(table) for table in TABLES}
    replayed(day, Fixed(5), "fixed")
    assert {table: day.lake.version(table) for table in TABLES} == before


def test_replay_models_periods_with_other_slots(day: Run) -> None:
    made = replayed(day, Fixed(2), "fixed")
    slots = [k.recorded.slots for k in made.evaluations]
    assert {k.replayed.slots for k in made.evaluations} == {2} and max(slots) > 2
    first = next(i for i, k in enumerate(made.evaluations) if not k.agreed)
    assert not any(k.modelled for k in made.evaluations[: first + 1]) and made.evaluations[first + 1].modelled
    assert made.replayed.reconfigurations == 0 and made.replayed.peak_slots == 2
    assert made.replayed.core_s == pytest.approx(2 * PERIOD_S * len(DAY))
    # two slots sustain 432 rows/s: nine evaluations of the day have more
    above = sum(rate > throughput(2) for rate in DAY)
    assert made.replayed.under_provisioned == above > made.recorded.under_provisioned
    assert made.evaluations[-4].replayed.backlog_rows > 100_000  # type: ignore[operator]


def test_replay_uses_the_measurements_of_a_level(day: Run) -> None:
    ran = {k.recorded.running for k in replayed(day, Steady()).evaluations}
    level = max(ran)
    made = replayed(day, Fixed(level), "fixed")
    assert made.evaluations[3].modelled
    assert made.evaluations[3].replayed.throughput_rows_per_s == pytest.approx(throughput(level))


def test_replay_with_a_slower_tuner_has_more_evaluations_with_too_few_slots(day: Run) -> None:
    slow = replayed(day, Steady("slow", patience=3), "slow")
    assert 0 < slow.agreed < len(DAY) and slow.modelled > 0
    assert slow.replayed.under_provisioned > slow.recorded.under_provisioned


def test_replay_rejoins_the_recording_on_the_same_slots(day: Run) -> None:
    made = replayed(day, Steady("slow", patience=2), "slow")
    back = [i for i, k in enumerate(made.evaluations) if i and made.evaluations[i - 1].modelled and not k.modelled]
    assert back
    for i in back:
        evaluation = made.evaluations[i]
        assert evaluation.replayed.running == evaluation.recorded.running
        assert evaluation.replayed.backlog_rows == evaluation.recorded.backlog_rows


def test_replay_is_vetoed_by_the_same_guard(day: Run) -> None:
    strict = day.spec.model_copy(update={"guards": day.spec.guards.model_copy(update={"cool_down_s": 10_000.0})})
    made = replayed(replace(day, loop=replace(day.loop, spec=strict)), Steady("slow", 2), "slow")
    assert made.replayed.reconfigurations == 1
    vetoed = [k for k in made.evaluations if k.replayed.action is Action.VETO]
    assert vetoed and {k.replayed.reason_code for k in vetoed} == {"cool_down"}
    assert "the cool-down is 10000 s" in vetoed[0].replayed.sentence


def test_replay_judges_the_quota_as_of_that_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(guards={"max_total_slots": 9, "cool_down_s": 0})
    run = launched(tmp_path, Steady(), spec, DAY[:4])
    other = spec_of().model_copy(update={"name": "other"})
    made = run.day()
    launch(other, run.tables, slots=8)  # long after the recorded evaluations
    again = replayed(run, Steady())
    assert would(again) == told(made)
    assert not [k for k in again.evaluations if k.replayed.action is Action.VETO]


def test_replay_of_a_broken_tuner_holds_each_time(day: Run) -> None:
    made = replayed(day, Broken(), "broken")
    assert {(k.replayed.action, k.replayed.reason_code) for k in made.evaluations} == {
        (Action.HOLD, "optimizer_failed")
    }
    assert "ZeroDivisionError: no rows" in made.evaluations[0].replayed.sentence


def test_replay_fails_again_if_a_version_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), spec_of(guards={"cool_down_s": 0}), DAY[:8], fails=frozenset({5}))
    recorded = run.day()
    assert [d for d in recorded if d.reason_code == "cool_down"], "a content that failed is not tried again at once"
    again = replayed(run, Steady())
    assert would(again) == told(recorded) and again.modelled == 0


def test_replay_refuses_more_slots_that_brought_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(guards={"cool_down_s": 0})
    run = launched(tmp_path, Steady(), spec, [300, *[500] * 5], able=lambda p: 240.0 * min(p, 2))
    recorded = run.day()
    assert "gain_missed" in {d.reason_code for d in recorded}
    assert would(replayed(run, Steady())) == told(recorded)


def test_replay_refuses_slots_that_a_person_rolled_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), spec_of(guards={"cool_down_s": 0}), [300, 700, *[700] * 4])
    recorded = [run.evaluate(), run.evaluate()]
    assert recorded[-1].action is Action.APPLY
    run.clock.wait(PERIOD_S / 2)
    run.app.apply(roll_back(run.tables, NAME, 1, "ann", run.clock.now, None))
    recorded += [run.evaluate() for _ in range(4)]
    assert "roll_back" in {d.reason_code for d in recorded if d.action is Action.VETO}, told(recorded)
    assert would(replayed(run, Steady())) == told(recorded)


def test_replay_leaves_out_dry_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), arrivals=DAY[:4])
    run.evaluate()
    run.evaluate(Request(dry_run=True))
    recorded = [run.evaluate(), run.evaluate()]
    made = replayed(run, Steady())
    assert len(made.evaluations) == 3
    assert would(made)[1:] == told(recorded)


def test_replay_of_forced_slots_uses_the_tuners_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), arrivals=[300] * 4)
    run.evaluate()
    run.evaluate(Request(forced_slots=6, requested_by="ada"))
    run.evaluate()
    made = replayed(run, Steady())
    forced = made.evaluations[1]
    assert (forced.recorded.decided, forced.replayed.decided, forced.agreed) == (6, 2, False)
    assert made.evaluations[2].modelled and made.evaluations[2].replayed.running == 2


def test_replay_of_an_advice_recording_carries_out_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), spec_of(mode="advise"), DAY[:7])
    run.day()
    made = replayed(run, Steady())
    assert made.recorded.reconfigurations == 0 and made.recorded.peak_slots == 2
    assert made.replayed.reconfigurations >= 2
    assert made.replayed.under_provisioned < made.recorded.under_provisioned


def test_replay_of_slots_owned_by_a_person_only_advises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), spec_of(owners={"slots": "person"}), DAY[:5])
    run.day()
    made = replayed(run, Fixed(5), "fixed")
    assert {k.replayed.action for k in made.evaluations} == {Action.ADVISE}
    assert made.replayed.peak_slots == 2


def test_replay_keeps_the_options_of_the_specs_own_tuner(day: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    tuner = day.spec.tuner.model_copy(update={"options": {"room": 0.5, "calm": True}})
    spec = day.spec.model_copy(update={"tuner": tuner})
    asked = []

    def make(name: str, options: Mapping[str, Any]) -> Optimizer:
        asked.append((name, dict(options)))
        return Steady(name)

    monkeypatch.setattr(registry, "create", make)
    for name in ("steady", "other"):
        wiring.replay(spec, day.tables, name, {"room": 0.9}, None, LATER)
    assert asked == [("steady", {"room": 0.9, "calm": True}), ("other", {"room": 0.9})]


def test_replay_of_nothing_says_what_is_allowed(tmp_path: Path, day: Run) -> None:
    with pytest.raises(
        MillraceError, match=r"since: got '2013-01-02 .*last recorded evaluation, 2013-01-01 12:15:00 UTC"
    ):
        replayed(day, Steady(), since=NOON + timedelta(days=1))
    with pytest.raises(MillraceError, match="a time before"):
        replayed(day, Steady(), since=LATER + timedelta(seconds=1))
    never = spec_of().model_copy(update={"name": "never"})
    with pytest.raises(MillraceError, match=r"pipeline: got 'never'.*millrace trigger never"):
        replay(never, day.tables, "steady", Steady(), {}, None, LATER)


def test_replay_covers_the_last_day_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), arrivals=[300] * 4)
    run.evaluate()
    run.clock.wait(25 * 3600)
    kept = [run.evaluate(), run.evaluate()]
    assert [k.time for k in replayed(run, Steady()).evaluations] == [d.time for d in kept]
