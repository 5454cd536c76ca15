"""How long missing executors are waited for: pending ones long, refused ones not, others as long as before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from millrace.run_folder.driver_records import PENDING_S
from millrace.runtime.agent import missing_executors
from millrace.runtime.agent.kubernetes_pods import Shortage
from millrace.runtime.agent.lead_times import SHORT_S, LeadTimes
from millrace.runtime.agent.missing_executors import MissingExecutors

WAITS = "1 pod is pending: 0/1 nodes are available."


@dataclass
class World:
    """One of two executors is there; the clock stands still unless told."""

    now_s: float = 100.0
    shortage: Shortage | None = None
    told: list[str] = field(default_factory=list)

    def missing(self, *former_s: float) -> MissingExecutors:
        return MissingExecutors(LeadTimes(lambda: former_s), lambda registered, wanted: self.shortage, self.told.append)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    clock: Any = missing_executors.time
    monkeypatch.setattr(clock, "monotonic", lambda: found.now_s)
    return found


def waits_for(world: World, missing: MissingExecutors, seconds: float) -> bool:
    """Return whether an executor is still waited for so long after its request."""
    missing.update({"0"}, 2, 0)
    world.now_s += seconds
    return missing.update({"0"}, 2, 0)


def test_pending_pod_of_a_slow_node_is_waited_for_and_named(world: World) -> None:
    world.shortage = Shortage(True, WAITS)
    missing = world.missing()
    assert waits_for(world, missing, 180.0)
    assert world.told == [WAITS]
    assert not missing.update({"0", "1"}, 2, 0) and world.told == [WAITS, ""]
    assert missing.leads.lead_s("1") == 180.0


def test_pod_that_stays_pending_counts_as_refused_in_the_end(world: World) -> None:
    world.shortage = Shortage(True, WAITS)
    assert not waits_for(world, world.missing(), PENDING_S + 1.0)
    assert world.told == [WAITS], "the reason stays"


def test_refused_pod_is_not_waited_for(world: World) -> None:
    world.shortage = Shortage(False, "1 of 2 pods exist: exceeded quota.")
    assert not waits_for(world, world.missing(400.0), SHORT_S + 1.0)


def test_cluster_that_says_nothing_gets_the_time_that_earlier_executors_took(world: World) -> None:
    assert not waits_for(world, world.missing(), SHORT_S + 1.0)
    world.now_s = 100.0
    assert waits_for(world, world.missing(180.0), 200.0)
    assert world.told == ["executors of this app have taken up to 180 s to come."]


def test_executors_that_leave_are_not_missed(world: World) -> None:
    assert not world.missing().update({"0", "1", "2"}, 2, 1)
