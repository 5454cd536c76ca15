"""The quota over all pipelines' slots holds on every path to a version, even under concurrent requests."""

from __future__ import annotations

import multiprocessing
import random
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.control.pending_decision import refuse
from millrace.drivers.quota import go_back, restore
from millrace.lake import deployments
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore, veto_id
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.errors import Conflict, MillraceError, Settled
from millrace.model.join import JoinSettings
from millrace.model.key_map import KeyMap
from tests.include.control.tenants import Tenant, slots_in_all, spec, tenants
from tests.include.control.world import NOON, Clock

QUOTA = 6
NAMES = ("a", "b", "c", "d")


def newest(tenant: Tenant) -> Deployment:
    latest = DeploymentStore(tenant.lake).latest(tenant.spec.name)
    assert latest is not None
    return latest


@pytest.fixture
def two(tmp_path: Path) -> tuple[Tenant, Tenant]:
    """Pipelines of 2 and 3 slots."""
    a, b = tenants(tmp_path, "a", "b")
    a.launch(slots=2)
    b.launch(slots=3)
    return a, b


def test_launch_beyond_the_quota_names_the_quota_the_holders_and_a_remedy(two: tuple[Tenant, Tenant]) -> None:
    a, _ = two
    told = (
        r"slots: got 4; allowed: at most 3: the quota of all pipelines is 6; the others hold b 3\. "
        r"Use fewer, stop or scale down another pipeline, or raise guards\.max_total_slots in a's spec\."
    )
    with pytest.raises(MillraceError, match=told):
        a.launch(slots=4)
    assert a.launch(slots=3).version == 3


def test_launch_can_use_slots_that_others_gave_back_or_stopped(two: tuple[Tenant, Tenant]) -> None:
    a, b = two
    b.launch(slots=1)
    assert a.launch(slots=5).slots == 5
    b.launch(running=False)
    assert a.launch(slots=6).slots == 6
    with pytest.raises(MillraceError, match="others hold a 6"):
        b.launch()
    a.launch(running=False)
    assert b.launch().slots == 1


def test_launch_when_the_quota_is_already_exceeded_then_may_keep_and_shrink_but_not_grow(tmp_path: Path) -> None:
    a, _ = tenants(tmp_path, "a", "b", quota=None, start=5)
    a.spec = spec("a", QUOTA)
    assert a.launch(slots=5) == newest(a)
    a.spec = spec("a", QUOTA, args=["--new"])
    assert a.launch().slots == 5
    with pytest.raises(MillraceError, match="at most 5"):
        a.launch(slots=6)
    assert a.launch(slots=4).slots == 4


def test_roll_back_to_more_slots_than_are_left_is_refused(two: tuple[Tenant, Tenant]) -> None:
    a, b = two
    a.launch(slots=1)
    b.launch(slots=5)
    with pytest.raises(MillraceError, match="others hold b 5"):
        a.launch(roll_back_to=2)
    assert a.slots == 1
    assert b.launch(roll_back_to=1).slots == 1
    assert a.launch(roll_back_to=2).slots == 2


@pytest.mark.parametrize(
    ("quota", "had", "elsewhere", "back"), [(6, 4, 3, 3), (6, 4, 1, 4), (6, 4, 5, 2), (None, 4, 9, 4)]
)
def test_restore_when_the_quota_leaves_less_then_gets_that_and_at_least_its_own(
    tmp_path: Path, quota: int | None, had: int, elsewhere: int, back: int
) -> None:
    a, b = tenants(tmp_path, "a", "b", quota=None)
    former = a.launch(slots=had)
    current = a.launch(slots=2)
    b.spec = spec("b", None, slots={"min": 1, "max": 9})
    b.launch(slots=elsewhere)
    made = restore(DeploymentStore(a.lake), replace(former, reason="back"), current, quota)
    assert made is not None and made == newest(a)
    assert (made.version, made.slots, made.reason) == (4, back, "back")
    assert made.apps == {"a": replace(former.apps["a"], slots=back)}


def test_restore_when_the_former_content_was_smaller_then_is_unchanged(two: tuple[Tenant, Tenant]) -> None:
    a, _ = two
    former = DeploymentStore(a.lake).get("a", 1)
    assert former is not None
    made = restore(DeploymentStore(a.lake), former, newest(a), QUOTA)
    assert made is not None and made.slots == 1


def test_restore_when_another_version_exists_then_it_stays(two: tuple[Tenant, Tenant]) -> None:
    a, _ = two
    former, current = newest(a), a.launch(slots=1)
    after = a.launch(slots=3)
    assert restore(DeploymentStore(a.lake), former, current, QUOTA) is None
    assert newest(a) == after


def test_restore_when_there_are_several_apps_then_each_keeps_its_slots_and_the_first_grow(tmp_path: Path) -> None:
    store = DeploymentStore(Lake(tmp_path))
    app = AppDeployment("x.py", (), 1, 1024, 8)
    former = Deployment("p", 1, True, {n: replace(app, slots=s) for n, s in (("x", 3), ("y", 4), ("z", 1))})
    store.commit(former, None)
    current = store.commit(replace(former, apps={n: replace(app, slots=2) for n in ("x", "y", "z")}), 1)
    made = restore(store, former, current, 7)
    assert made is not None and {n: a.slots for n, a in made.apps.items()} == {"x": 3, "y": 3, "z": 1}


def test_go_back_of_an_app_keeps_what_needed_no_restart(tmp_path: Path) -> None:
    store, app = DeploymentStore(Lake(tmp_path)), AppDeployment("x.py", (), 1, 1024, 8)
    live = {"join": JoinSettings(3, 10, 0.2), "ingest": {"s": 1}, "partitioning": {"areas": KeyMap(2, ("area",), 4)}}
    store.commit(Deployment("p", 1, True, {"a": app}, join=JoinSettings(1, 10)), None)
    failed = store.commit(Deployment("p", 1, True, {"a": replace(app, script="y.py")}, **live), 1)
    assert go_back(store, failed, "a", 1, "it failed", None)
    again = store.latest("p")
    assert again is not None and again.apps == {"a": app}
    assert {name: getattr(again, name) for name in live} == live


def test_commit_when_slots_were_raised_after_the_check_then_conflicts(two: tuple[Tenant, Tenant]) -> None:
    a, b = two
    before = DeploymentStore(a.lake).slots_in_use()
    b.launch(slots=4)
    grown = replace(newest(a), apps={"a": replace(newest(a).apps["a"], slots=4)})
    with pytest.raises(Conflict):
        DeploymentStore(a.lake).commit(grown, 2, before)
    shrunk = replace(newest(a), apps={"a": replace(newest(a).apps["a"], slots=1)})
    assert DeploymentStore(a.lake).commit(shrunk, 2, before).slots == 1


def test_apply_when_others_keep_committing_first_then_fails_with_a_remedy(
    two: tuple[Tenant, Tenant], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = two
    decision = a.decide(3)

    def lose(*_: object) -> Deployment:
        raise Conflict("taken")

    with monkeypatch.context() as crowded:
        crowded.setattr(deployments, "MOST_ATTEMPTS", 3)
        crowded.setattr(DeploymentStore, "commit", lose)
        with pytest.raises(Conflict, match="committed first; try again"):
            a.loop.apply(decision.decision_id)
    a.loop.apply(decision.decision_id)
    assert a.slots == 3


def settle(tenant: Tenant, decision: Decision) -> None:
    """Apply a Decision; whatever the result, the quota holds afterwards."""
    with suppress(Settled):
        tenant.loop.apply(decision.decision_id)
    assert slots_in_all(tenant.lake) <= QUOTA


Step = tuple[int, int, bool]
"""Which pipeline, how many slots it asks for, and whether it applies its oldest Decision or makes one."""


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), min_size=4, max_size=16))
def test_quota_when_decisions_and_applies_interleave_then_is_never_exceeded(steps: list[Step]) -> None:
    with TemporaryDirectory() as root:
        every = tenants(Path(root), *NAMES)
        made: list[list[Decision]] = [[] for _ in NAMES]
        for who, slots, applies in steps:
            if applies and made[who]:
                settle(every[who], made[who].pop(0))
            else:
                made[who].append(every[who].decide(slots))
        for tenant, waiting in zip(every, made, strict=True):
            for decision in waiting:
                settle(tenant, decision)


def climb(root: str, name: str, begin: datetime = NOON) -> int:
    """Force one slot more until the quota refuses, giving one back now and then; return the accepted raises."""
    tenant, dice, raises = Tenant(spec(name, QUOTA), Lake(root), Clock(begin)), random.Random(name), 0
    while True:
        decision = tenant.decide(tenant.slots + 1)
        if decision.action is Action.VETO:
            return raises
        with suppress(Settled):
            tenant.loop.apply(decision.decision_id)
            raises += 1
        assert slots_in_all(tenant.lake) <= QUOTA
        if dice.random() < 0.3 and tenant.slots > 1:
            tenant.loop.apply(tenant.decide(tenant.slots - 1).decision_id)


def launch_higher(root: str, name: str) -> int:
    """Launch with one slot more until the quota refuses; return the accepted raises."""
    tenant, raises = Tenant(spec(name, QUOTA), Lake(root)), 0
    with suppress(MillraceError):
        while True:
            tenant.launch(slots=tenant.slots + 1)
            raises += 1
            assert slots_in_all(tenant.lake) <= QUOTA
    return raises


def test_quota_when_processes_compete_then_is_reached_and_never_exceeded(tmp_path: Path) -> None:
    tenants(tmp_path, *NAMES)
    with multiprocessing.get_context("spawn").Pool(len(NAMES)) as pool:
        ways = (climb, climb, climb, launch_higher)
        jobs: list[Any] = [pool.apply_async(way, (str(tmp_path), name)) for way, name in zip(ways, NAMES, strict=True)]
        raises = [job.get() for job in jobs]
    assert sum(raises) >= QUOTA - len(NAMES)
    climb(str(tmp_path), "a", NOON + timedelta(hours=1))  # the last process to give a slot back may have left it free
    assert slots_in_all(Lake(tmp_path)) == QUOTA


def test_quota_when_threads_compete_for_the_last_slot_then_exactly_one_gets_it(tmp_path: Path) -> None:
    every = tenants(tmp_path, *NAMES, "e")
    decisions = [tenant.decide(2) for tenant in every]
    barrier = Barrier(len(every))

    def apply(tenant: Tenant, decision: Decision) -> None:
        barrier.wait()
        with suppress(Settled):
            tenant.loop.apply(decision.decision_id)

    threads = [Thread(target=apply, args=pair) for pair in zip(every, decisions, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(tenant.slots for tenant in every) == [1, 1, 1, 1, 2]
    vetoes = [DecisionStore(t.lake).get(veto_id(d)) for t, d in zip(every, decisions, strict=True)]
    assert sorted(veto.reason_code for veto in vetoes if veto) == ["quota"] * 4


def agree(root: str, decision_id: str) -> bool:
    """Apply a Decision; say if it became a version."""
    tenant = Tenant(spec("a"), Lake(root))
    with suppress(Settled):
        tenant.loop.apply(decision_id)
    return DeploymentStore(tenant.lake).made_by("a", decision_id) is not None


def disagree(root: str, decision_id: str) -> bool:
    """Refuse a Decision; say if the refusal was recorded."""
    lake = Lake(root)
    with suppress(MillraceError):
        refuse(ControlTables(lake), "a", decision_id, "bob", Tenant(spec("a"), lake).clock())
        return True
    return False


def test_answers_when_yes_and_no_come_at_once_then_exactly_one_counts(tmp_path: Path) -> None:
    (tenant,) = tenants(tmp_path, "a")
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        for _ in range(8):
            asked = replace(tenant.decide(tenant.slots % QUOTA + 1), action=Action.AWAIT)
            asked = replace(asked, decision_id=f"{asked.decision_id[:-1]}x")
            assert asked.target is not None
            asked = replace(asked, target=replace(asked.target, decision_id=asked.decision_id))
            assert DecisionStore(tenant.lake).record(asked)
            jobs: list[Any] = [pool.apply_async(f, (str(tmp_path), asked.decision_id)) for f in (agree, disagree)]
            applied, refused = (job.get() for job in jobs)
            veto = DecisionStore(tenant.lake).get(veto_id(asked))
            assert applied is not refused
            assert (veto is not None) is refused
