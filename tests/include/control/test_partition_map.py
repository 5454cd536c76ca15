"""Maps of keys in the loop: proposed, judged, refused, rolled back and replayed like any change without a restart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from millrace.control.launch import launch, roll_back
from millrace.control.messages import explain_change
from millrace.control.pending_decision import pending, refuse
from millrace.control.proposals import Proposals, arbitrate, in_order
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.store import Lake
from millrace.model.decision import Action, Memory, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import PARTITION_MAP, SLOTS, AppDeployment, Change, Deployment
from millrace.model.key_map import HotKey, KeyMap, KeySample
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.optimizers.partition_maps import PartitionMaps, PartitionOptions
from millrace.reporting.backtest import replay
from tests.include.control.recorded_run import DAY, App, Steady, launched, spec_of
from tests.include.control.world import NAME, MemoryPlant, PassingGate, World, spec, world

MAP = KeyMap(4, ("area",), 2, hot={-7: {0: 0.25, 1: 0.75}})
CHANGE = Change(NAME, PARTITION_MAP, 0, 4, operator="areas", key_map=MAP)
CURRENT = Deployment(NAME, 3, True, {NAME: AppDeployment("x", (), 2, 1024, 8)})


def keys(hot: int, time: datetime) -> tuple[KeySample, ...]:
    """Return samples in which one key has two fifths of the rows."""
    of = (HotKey(hot, f"area {hot}", 16_000),)
    return (KeySample(NAME, NAME, 1, time, "areas", ("area",), 4, None, 40_000, of),)


@dataclass
class KeyPlant(MemoryPlant):
    """An app that continues with its first version, and whose hot key is set."""

    hot: int = 17

    def observe(self, since: Cursor) -> Signals:
        return replace(super().observe(since), deployment_version=1, keys=keys(self.hot, self.clock.now))


class Quiet:
    """A tuner that wants nothing."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        return Proposal("flow", (), "fits", ""), memory


def running(home: Path, **changes: Any) -> tuple[World, KeyPlant]:
    w = world(home, partitioning={}, **changes)
    w.loop.optimizers = {"flow": Quiet(), "waterfill": PartitionMaps(PartitionOptions(half_life_s=1))}
    plant = KeyPlant(w.lake, w.clock)
    w.loop.plant, w.loop.gate = plant, PassingGate(w.clock)
    w.run()
    return w, plant


def evaluate(w: World, number: int) -> Any:
    w.clock.wait(10)
    w.report(number, number)
    decision = w.loop.decide(w.loop.observe())
    if decision.action is Action.APPLY:
        w.loop.apply(decision.decision_id)
    return decision


def latest(lake: Lake) -> Deployment:
    found = DeploymentStore(lake).latest(NAME)
    assert found is not None
    return found


def test_map_belongs_to_its_optimizer_and_follows_the_one_that_it_knows() -> None:
    owners = spec(partitioning={}).field_owners
    assert arbitrate(Proposal("waterfill", (CHANGE,), "r", "s"), CURRENT, owners) == ((CHANGE,), ())
    (advice,) = arbitrate(Proposal("flow", (CHANGE,), "r", "s"), CURRENT, owners)[1]
    assert advice.sentence == "flow advises delays: partition_map of areas 0 -> 4 (partition_map belongs to waterfill)"
    deployed = CURRENT.with_changes((CHANGE,))
    (stale,) = arbitrate(Proposal("waterfill", (CHANGE,), "r", "s"), deployed, owners)[1]
    assert stale.why == "it expected 0, but 4 is set"
    assert PARTITION_MAP not in spec().field_owners
    assert in_order(["waterfill", "albic", "flow", "drfm"]) == ["drfm", "flow", "albic", "waterfill"]


def test_message_names_the_keys() -> None:
    proposals = Proposals(
        CURRENT.with_changes((CHANGE,)), (Proposal("waterfill", (CHANGE,), "r", "they are skewed"),), (CHANGE,)
    )
    assert explain_change(Action.APPLY, proposals, None) == "delays: another map for areas: they are skewed."


def test_map_changes_each_time_without_restarts(tmp_path: Path) -> None:
    w, plant = running(tmp_path, guards={"cool_down_s": 600}, objective={"max_reconfigurations_per_hour": 0})
    now = w.clock.now
    ReconfigurationStore(w.lake).record(Reconfiguration(NAME, NAME, "d", "T2", 1, 2, 2, now, now, 5.0, Outcome.READY))
    first = evaluate(w, 31)
    assert (first.action, first.reason_code) == (Action.APPLY, "keys_skewed")
    assert first.sentence.startswith("delays: another map for areas: the most loaded of 4 workers gets 2.17 ")
    assert evaluate(w, 32).action is Action.HOLD
    plant.hot = 1234
    assert evaluate(w, 33).action is Action.APPLY
    history = [made for _, made in reversed(DeploymentStore(w.lake).versions(NAME, 100))]
    assert [set(made.partitioning["areas"].hot) for made in history[1:]] == [{17}, {1234}]
    assert [made.partitioning["areas"].revision for made in history[1:]] == [2, 3]
    assert {id_ for made in history for id_ in [made.apps == history[0].apps]} == {True}


def test_map_is_only_advised_or_waits_for_a_person_and_a_refused_one_is_not_asked_again(tmp_path: Path) -> None:
    w, _ = running(tmp_path / "advise", mode="advise")
    assert evaluate(w, 31).action is Action.ADVISE and latest(w.lake).version == 1
    w, plant = running(tmp_path / "approve", mode="approve")
    asked = evaluate(w, 31)
    assert asked.action is Action.AWAIT and asked.sentence.startswith("Waiting for approval: delays: another map")
    assert evaluate(w, 32).reason_code == "awaiting_approval"
    plant.hot = 18  # later samples give another map, for the same reason
    refuse(w.tables, NAME, asked.decision_id, "ann", w.clock.now)
    assert [evaluate(w, number).reason_code for number in (33, 34)] == ["rejected", "rejected"]
    assert pending(w.loop.spec, w.tables, w.clock.now) == [] and latest(w.lake).version == 1


def test_map_waits_for_the_end_of_quiet_hours(tmp_path: Path) -> None:
    w, _ = running(tmp_path, guards={"quiet_hours": ["11:00-13:00"]})
    decision = evaluate(w, 31)
    assert (decision.action, decision.reason_code) == (Action.VETO, "quiet_hours")


def test_person_brings_a_former_map_back_and_it_stays_for_an_hour(tmp_path: Path) -> None:
    w, plant = running(tmp_path)
    evaluate(w, 31)
    plant.hot = 1234
    evaluate(w, 32)
    roll_back(w.tables, NAME, 2, "ann", w.clock.now, None)
    restored = latest(w.lake)
    assert restored.version == 4 and set(restored.partitioning["areas"].hot) == {17}
    held = evaluate(w, 33)
    assert (held.action, held.reason_code) == (Action.VETO, "roll_back") and "a person rolled a map" in held.sentence
    w.clock.wait(3600)
    assert evaluate(w, 34).action is Action.APPLY
    assert set(latest(w.lake).partitioning["areas"].hot) == {1234}
    assert latest(w.lake).partitioning["areas"].revision == 5


class Growing(Quiet):
    """A tuner that wants four slots."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        return Proposal("flow", (Change(NAME, SLOTS, current.apps[NAME].slots, 4),), "too few", ""), memory


def test_map_that_a_person_rolled_back_does_not_hold_up_slots(tmp_path: Path) -> None:
    w, plant = running(tmp_path)
    evaluate(w, 31)
    plant.hot = 1234
    evaluate(w, 32)
    roll_back(w.tables, NAME, 2, "ann", w.clock.now, None)
    w.loop.optimizers = {**w.loop.optimizers, "flow": Growing()}
    decision = evaluate(w, 33)
    assert decision.action is Action.APPLY and latest(w.lake).apps[NAME].slots == 4
    assert set(latest(w.lake).partitioning["areas"].hot) == {17}
    assert "Not now: delays: another map for areas (roll-back: a person rolled a map" in decision.sentence


def test_launch_keeps_the_maps_of_a_spec_that_wants_them(tmp_path: Path) -> None:
    tables = ControlTables(Lake(tmp_path))
    first = launch(spec(partitioning={}), tables)
    DeploymentStore(tables.lake).commit(first.with_changes((CHANGE,)), 1)
    assert launch(spec(partitioning={}), tables).version == 2, "it is what is wished already"
    assert launch(spec(partitioning={}), tables, running=False).partitioning == {"areas": MAP}
    assert launch(spec(), tables).partitioning == {}


@dataclass
class SkewedApp(App):
    """An app whose hot key changes at noon, and that keeps running with another map."""

    looks: list[int] = field(default_factory=list)

    def observe(self, since: Cursor) -> Signals:
        signals = super().observe(since)
        self.looks.append(0)
        return replace(signals, keys=keys(17 if len(self.looks) < len(DAY) / 2 else 1234, signals.until))

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        ran = DeploymentStore(self.lake).get(NAME, self.version)
        assert ran is not None
        return () if target.apps == ran.apps else super().apply(target)


def test_replay_makes_the_same_maps_at_the_same_time(tmp_path: Path) -> None:
    run = launched(tmp_path, Steady(), spec_of(partitioning={}))
    run.app = SkewedApp(run.spec, run.lake, run.clock, DAY)
    maps = PartitionMaps(PartitionOptions(half_life_s=60))
    run.loop.plant, run.loop.optimizers = run.app, {"steady": Steady(), "waterfill": maps}
    recorded = run.day()
    changed = [d.time for d in recorded if any(c.field == PARTITION_MAP for c in d.changes)]
    assert len(changed) >= 2 and 1234 in latest(run.lake).partitioning["areas"].hot
    of_tuner = replay(run.spec, run.tables, "steady", Steady(), {}, None, run.clock.now)
    assert (of_tuner.agreed, of_tuner.modelled) == (len(DAY), 0)
    of_maps = replay(run.spec, run.tables, "waterfill", maps, {}, None, run.clock.now)
    assert [e.time for e in of_maps.evaluations if "another map" in e.replayed.sentence] == changed


@pytest.mark.parametrize("more", [{"apps": {"a": {"script": "a.py"}}}, {"partitioning": {"option": {}}}])
def test_section_in_a_pipeline_of_several_apps_or_with_unknown_keys_is_an_error(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="partitioning"):
        spec(**{"partitioning": {}, **more})
