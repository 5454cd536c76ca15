"""The agent's requests, placements and releases, step by step, on a cluster that only counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.model.deployment import AppDeployment, Deployment, ExecutorSize
from millrace.model.errors import MillraceError
from millrace.runtime.agent import agent as agents
from millrace.runtime.agent import departures, lead_times
from millrace.runtime.agent.agent import ExecutorAgent
from millrace.runtime.agent.allocation import Executor, Lifetime
from millrace.runtime.agent.missing_executors import MissingExecutors
from millrace.runtime.agent.placement import Partition
from tests.include.runtime.progress import IDLE, RAN, progress

APP = AppDeployment("s.py", (), 2, 1024, 8, executor=ExecutorSize(1, 512))
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
PARTITIONS = tuple(Partition("q", "file:/state", "run", 0, number, ("default",)) for number in range(8))


@dataclass
class Cluster:
    """Executors that arrive when requested, and leave when released."""

    alive: list[str]
    total: int
    free: int = 99
    deaf: bool = False
    working: set[str] = field(default_factory=set)
    asked: list[int] = field(default_factory=list)
    known: dict[str, Lifetime] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)

    def request(self, total: int) -> bool:
        self.asked.append(total)
        self.total = total
        return True

    def come(self) -> None:
        while len(self.alive) < min(self.total, self.free):
            self.alive.append(str(max(map(int, self.alive), default=-1) + 1))

    def registered(self) -> tuple[Executor, ...]:
        return tuple(Executor(id, "host", self.cores.get(id)) for id in self.alive)

    def lifetimes(self) -> tuple[Lifetime, ...]:
        for id in self.alive:
            self.known.setdefault(id, Lifetime(Executor(id, "host"), 1, NOON, None, None))
        for id in set(self.known) - set(self.alive):
            self.known[id] = replace(self.known[id], ended=NOON, reason="exited with code 52")
        return tuple(self.known.values())

    def let_go(self, executor: Executor) -> None:
        self.total -= 1
        if not self.deaf:
            self.alive.remove(executor.id)

    def busy(self) -> set[str]:
        return self.working

    def kill(self, executor: Executor) -> None:
        self.alive.remove(executor.id)


@dataclass
class State:
    """The locations of partitions, and the running batch."""

    on: dict[int, str | None] = field(default_factory=lambda: dict.fromkeys(range(8)))
    batch: int = 0

    def partitions(self, query: Any) -> tuple[Partition, ...]:
        return PARTITIONS

    def batches(self, queries: Any) -> dict[str, int]:
        return {query.runId: self.batch for query in queries}

    def executor_of(self, partition: Partition) -> str | None:
        return self.on[partition.number]

    def name(self, partition: Partition, executor: Executor) -> None:
        self.on[partition.number] = executor.id


class Query:
    """A query in the middle of a batch, or idle, or in a trigger that looks for rows after the shown progress."""

    isActive, runId, busy, every_s = True, "run", True, 0  # noqa: N815 - Spark's names
    shown: Any = None

    @property
    def _jsq(self) -> Any:
        return self

    def status(self) -> Any:
        return self

    def isTriggerActive(self) -> bool:  # noqa: N802
        return self.busy and not self.every_s

    def message(self) -> str:
        return "Processing new data" if self.shown is None else "Getting offsets from DeltaSource[source]"

    def isDataAvailable(self) -> bool:  # noqa: N802
        return self.busy and self.shown is None

    def streamingQuery(self) -> Any:  # noqa: N802
        kind = SimpleNamespace(getSimpleName=lambda: "ProcessingTimeTrigger")
        timed = SimpleNamespace(getClass=lambda: kind, intervalMs=lambda: 1000 * self.every_s)
        return SimpleNamespace(trigger=lambda: timed, lastProgress=lambda: self.shown)


@dataclass
class World:
    cluster: Cluster = field(default_factory=lambda: Cluster(["0", "1"], 2))
    state: State = field(default_factory=State)
    query: Query = field(default_factory=Query)
    newest: Deployment | None = field(default_factory=lambda: Deployment("p", 1, True, {"a": APP}))
    reports: list[tuple[int, int]] = field(default_factory=list)
    notes: list[tuple[Lifetime, int | None]] = field(default_factory=list)
    broken: bool = False
    cold: set[str] = field(default_factory=set)
    missing: MissingExecutors = field(default_factory=MissingExecutors)

    def __post_init__(self) -> None:
        def report(version: int, slots: int) -> None:
            self.reports.append((version, slots))

        def note(lifetime: Lifetime, executor: int | None) -> None:
            self.notes.append((lifetime, executor))

        parts: tuple[Any, Any] = (self.cluster, self.state)
        self.agent = ExecutorAgent(
            "a", 1, APP, self.read, *parts, [self.query], report, note, self.ready, missing=self.missing
        )

    def ready(self, executors: Sequence[Executor], running: bool) -> set[str]:
        return {executor.id for executor in executors} - self.cold

    def read(self) -> Deployment | None:
        if self.broken:
            raise MillraceError("lake", "gone", "a folder", "Mount it.")
        return self.newest

    def deploy(self, slots: int, **changes: Any) -> None:
        assert self.newest is not None
        app = replace(APP, slots=slots, **changes)
        self.newest = replace(self.newest, version=self.newest.version + 1, apps={"a": app})

    def loads(self) -> list[int]:
        on = list(self.state.on.values())
        return [on.count(id) for id in self.cluster.alive]


def test_more_slots_are_requested_once_and_reported_when_all_have_arrived() -> None:
    world = World()
    world.deploy(4)
    world.agent.step()
    world.agent.step()
    assert world.cluster.asked == [4] and world.reports == []
    world.cluster.come()
    world.agent.step()
    assert world.reports == [(2, 4)]
    world.agent.step()
    assert world.reports == [(2, 4)]


def test_new_executors_get_their_share_of_the_state() -> None:
    world = World()
    world.agent.step()
    assert world.loads() == [4, 4]
    world.deploy(4)
    world.agent.step()
    world.cluster.come()
    world.agent.step()
    assert world.loads() == [2, 2, 2, 2]


def test_new_executors_get_no_state_and_do_not_count_until_they_are_ready() -> None:
    world = World(cold={"2", "3"})
    world.agent.step()
    world.deploy(4)
    world.agent.step()
    world.cluster.come()
    world.agent.step()
    assert world.loads() == [4, 4, 0, 0] and world.reports == []
    world.cold.clear()
    world.agent.step()
    assert world.loads() == [2, 2, 2, 2]
    world.state.batch += 2
    world.agent.step()
    assert world.reports[-1] == (2, 4)


def test_executors_that_are_all_cold_get_the_state_at_once() -> None:
    world = World(cold={"0", "1"})
    world.deploy(2)
    world.agent.step()
    assert world.loads() == [4, 4]
    world.state.batch += 2
    world.agent.step()
    assert world.reports == [(2, 2)]


def test_slots_count_at_once_if_no_query_keeps_state(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(cold={"2", "3"})
    monkeypatch.setattr(world.state, "partitions", lambda query: ())
    world.deploy(4)
    world.agent.step()
    world.cluster.come()
    world.agent.step()
    assert world.reports == [(2, 4)]


@pytest.mark.parametrize(("batch", "running"), [(-1, False), (0, True)])
def test_executors_count_as_new_once_a_batch_has_run(batch: int, running: bool) -> None:
    world, asked = World(state=State(batch=batch)), []
    world.agent._ready = lambda executors, running: asked.append(running) or {e.id for e in executors}
    world.agent.step()
    assert asked == [running]


def test_task_that_reports_itself_is_overruled_after_its_batch() -> None:
    world = World()
    world.agent.step()
    world.state.on[0] = world.state.on[1] = world.state.on[2] = world.state.on[3] = "1"
    world.agent.step()
    assert world.loads() == [0, 8]  # nothing is requested from Spark while a batch runs
    world.state.batch += 1
    world.agent.step()
    assert world.loads() == [4, 4]


def test_executors_leave_only_after_a_batch_without_state_on_them() -> None:
    world = World(cluster=Cluster(["0", "1", "2"], 3))
    world.deploy(1)
    world.agent.step()
    assert world.loads() == [8, 0, 0] and world.cluster.alive == ["0", "1", "2"]
    world.state.batch += 1
    world.agent.step()
    assert world.cluster.alive == ["0", "1", "2"]
    world.state.batch += 1
    world.agent.step()
    assert world.cluster.alive == ["0"] and world.cluster.total == 1
    world.agent.step()
    assert world.reports == [(2, 1)]


def test_executors_leave_an_idle_query_at_once() -> None:
    world = World()
    world.query.busy = False
    world.deploy(1)
    world.agent.step()
    assert world.cluster.alive == ["0"]


def test_executors_leave_while_a_query_looks_for_rows() -> None:
    world = World()
    world.query.shown = progress(1, IDLE)
    world.deploy(1)
    world.agent.step()
    assert world.cluster.alive == ["0"]


def test_executors_leave_a_long_batch_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "DRAIN_S", 0.0)
    world = World()
    world.deploy(1)
    world.agent.step()
    assert world.cluster.alive == ["0"]


def test_executor_that_leaves_later_gets_a_wait_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    monkeypatch.setattr(agents.time, "monotonic", lambda: seconds)
    world = World(cluster=Cluster(["0", "1", "2", "3"], 4))
    alive = {}
    for seconds, slots in ((0.0, 3), (55.0, 2), (60.0, 2), (61.0, 2), (114.0, 2), (115.0, 2)):
        world.deploy(slots)
        world.agent.step()
        alive[seconds] = list(world.cluster.alive)
    assert alive[55.0] == ["0", "1", "2", "3"]
    assert alive[60.0] == alive[114.0] == ["0", "1", "2"] and alive[115.0] == ["0", "1"]
    assert world.cluster.total == 2 and world.cluster.asked[-1] == 3


def test_executor_that_stays_after_all_waits_again_when_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    monkeypatch.setattr(agents.time, "monotonic", lambda: seconds)
    world = World()
    for at_s, slots in ((0.0, 1), (30.0, 2), (59.0, 1), (61.0, 1)):
        seconds = at_s
        world.deploy(slots)
        world.agent.step()
    assert world.cluster.alive == ["0", "1"]


def test_executor_that_does_not_end_is_killed_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(cluster=Cluster(["0", "1"], 2, deaf=True))
    world.query.busy = False
    world.deploy(1)
    world.agent.step()
    world.agent.step()
    assert world.cluster.alive == ["0", "1"] and world.reports == [(2, 1)] and world.loads() == [8, 0]
    monkeypatch.setattr(departures, "END_S", 0.0)
    world.agent.step()
    assert world.cluster.alive == ["0"]


def test_executor_is_killed_only_after_its_last_task_unless_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    monkeypatch.setattr(agents.time, "monotonic", lambda: seconds)
    world = World(cluster=Cluster(["0", "1", "2"], 3, deaf=True, working={"1", "2"}))
    world.query.busy = False
    world.deploy(1)
    alive = {}
    for seconds in (0.0, 1.0, 100.0, 130.0, 131.0, 599.0, 629.0, 630.0):
        if seconds > 100:
            world.cluster.working = {"2"}
        world.agent.step()
        alive[seconds] = list(world.cluster.alive)
    assert alive[130.0] == ["0", "1", "2"] and alive[131.0] == ["0", "2"], "30 s for the blocks after the last task"
    assert alive[629.0] == ["0", "2"] and alive[630.0] == ["0"], "a task that hangs"


def test_request_taken_back_brings_no_executors() -> None:
    world = World()
    world.deploy(4)
    world.agent.step()
    world.deploy(2)
    world.agent.step()
    assert world.cluster.asked == [4, 2]


def test_lost_executor_is_replaced_and_its_successor_gets_its_share() -> None:
    world = World()
    world.agent.step()
    world.cluster.alive.remove("1")
    world.agent.step()
    assert world.loads() == [8]
    world.cluster.come()
    world.agent.step()
    assert world.cluster.alive == ["0", "1"] and world.loads() == [4, 4]
    assert world.cluster.asked == []


def test_request_is_repeated_to_a_master_that_forgot_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "REMIND_S", 0.0)
    world = World()
    world.agent.step()
    assert world.cluster.asked == [2]


def test_executors_that_do_not_arrive_are_not_requested_again() -> None:
    world = World(cluster=Cluster(["0", "1"], 2, free=3))
    world.deploy(8)
    for _ in range(3):
        world.agent.step()
        world.cluster.come()
    assert world.cluster.asked == [8] and world.cluster.alive == ["0", "1", "2"] and world.reports == []
    world.deploy(3)
    world.agent.step()
    assert world.reports == [(3, 3)]


def test_full_cluster_is_reported_after_a_timeout_and_so_is_its_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    monkeypatch.setattr(agents.time, "monotonic", lambda: seconds)
    world = World(cluster=Cluster(["0", "1"], 2, free=3))
    world.deploy(8)
    world.agent.step()
    world.cluster.come()
    world.agent.step()
    seconds += lead_times.SHORT_S + 1
    world.agent.step()
    assert world.reports[-1] == (2, 3)
    world.cluster.free = 99
    world.cluster.come()
    world.agent.step()
    assert world.reports[-1] == (2, 8)


def test_long_present_executors_do_not_shorten_the_wait_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = 0.0
    monkeypatch.setattr(agents.time, "monotonic", lambda: seconds)
    world = World()
    world.agent.step()
    seconds = 1000.0
    world.deploy(4)
    world.agent.step()
    assert world.reports == []
    seconds += lead_times.SHORT_S + 1
    world.agent.step()
    assert world.reports == [(2, 2)]


def test_executors_with_fewer_cores_count_by_their_tasks_and_more_are_requested() -> None:
    world = World()
    world.deploy(4, executor=ExecutorSize(2, 512), submit={"conf": {}})
    world.agent._content = world.newest.apps["a"]  # type: ignore[union-attr]
    world.agent.step()
    assert world.reports == [(2, 4)], "two executors with two tasks each"
    # what Spark 4.2 makes on Kubernetes after an executor has run out of memory
    world.cluster.alive[1], world.cluster.cores = "2", {"0": 2, "2": 1}
    world.agent.step()
    assert world.cluster.asked[-1] == 3, "one more, for the task that is missing"
    world.cluster.come()
    world.cluster.cores["3"] = 1
    world.agent.step()
    assert world.reports[-1] == (2, 4)


def test_lost_executors_that_do_not_return_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lead_times, "SHORT_S", 0.0)
    world = World()
    world.cluster.alive.remove("1")
    world.agent.step()
    world.agent.step()
    assert world.reports == [(1, 1)]
    world.cluster.alive.clear()
    world.agent.step()
    assert world.reports == [(1, 1)]


@pytest.mark.parametrize("content", [{"script": "t.py"}, {"memory_mb": 2048}, {"executor": ExecutorSize(2, 512)}])
def test_other_content_is_left_to_the_reconciler(content: dict[str, Any]) -> None:
    world = World()
    world.deploy(4, **content)
    world.agent.step()
    assert world.cluster.asked == [] and world.reports == []


def test_executors_are_recorded_once_on_arrival_and_once_at_the_end() -> None:
    world = World()
    world.agent.step()
    world.agent.step()
    assert [(n.executor.id, n.ended, executor) for n, executor in world.notes] == [("0", None, 0), ("1", None, 1)]
    world.cluster.alive.remove("1")
    world.agent.step()
    world.agent.step()
    assert [(n.executor.id, n.reason, executor) for n, executor in world.notes[2:]] == [("1", "exited with code 52", 1)]


def test_memory_of_executors_is_recorded_if_it_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    monkeypatch.setattr(agents.time, "monotonic", lambda: seconds)
    world = World()
    world.agent.step()
    for peak_memory_mb in (500, 540, 700):
        seconds += agents.MEMORY_S
        world.cluster.known["0"] = replace(world.cluster.known["0"], peak_memory_mb=peak_memory_mb)
        world.agent.step()
        world.agent.step()
    assert [(n.executor.id, n.peak_memory_mb) for n, _ in world.notes[2:]] == [("0", 500), ("0", 700)]


HOT = (0, 1, 1, 1, 1, 1, 1, 1)
"""A plan that gives the first partition an executor of its own."""


def test_planned_partitions_run_where_the_deployment_says() -> None:
    world = World()
    world.deploy(2, placement={"q/0": HOT})
    world.agent.step()
    assert world.loads() == [1, 7] and world.state.on[0] == "0"


def test_placement_is_reported_after_a_batch_has_run_on_it() -> None:
    world = World()
    world.agent.step()
    world.deploy(2, placement={"q/0": HOT})
    for batch in (0, 1):  # the batch that ran when partitions were named, and one that used the names
        world.state.batch = batch
        world.agent.step()
        assert world.reports == []
    world.state.batch = 2
    world.agent.step()
    assert world.reports == [(2, 2)]


def test_task_that_reports_itself_elsewhere_delays_the_report() -> None:
    world = World()
    world.deploy(2, placement={"q/0": HOT})
    world.agent.step()
    world.state.batch, world.state.on[0] = 2, "1"
    world.agent.step()
    assert world.reports == [] and world.state.on[0] == "0"
    world.state.batch = 4
    world.agent.step()
    assert world.reports == [(2, 2)]


def test_placement_of_an_idle_query_is_reported_at_once() -> None:
    world = World()
    world.query.busy = False
    world.deploy(2, placement={"q/0": HOT})
    world.agent.step()
    assert world.reports == [(2, 2)]


@pytest.mark.parametrize(("durations", "reports"), [(IDLE, [(2, 2)]), (RAN, [])])
def test_placement_of_a_query_that_looks_for_rows_is_reported_unless_it_just_had_some(
    durations: dict[str, int], reports: list[tuple[int, int]]
) -> None:
    world = World()
    world.query.shown = progress(1, durations)
    world.deploy(2, placement={"q/0": HOT})
    world.agent.step()
    assert world.reports == reports


@pytest.mark.parametrize(("every_s", "reports"), [(600, [(2, 2)]), (5, [])])
def test_placement_of_a_query_waiting_for_a_rare_trigger_is_reported_at_once(
    every_s: int, reports: list[tuple[int, int]]
) -> None:
    world = World()
    world.query.every_s = every_s
    world.deploy(2, placement={"q/0": HOT})
    world.agent.step()
    assert world.reports == reports


def test_executors_that_arrive_are_reported_before_their_placement_is_in_place() -> None:
    world = World()
    world.deploy(3, placement={"q/0": (0, 1, 2, 2, 2, 2, 2, 2)})
    world.agent.step()
    world.cluster.come()
    world.agent.step()
    assert world.reports == [(1, 3)]
    world.state.batch += 2
    world.agent.step()
    assert world.reports == [(1, 3), (2, 3)]


def test_placement_that_fails_is_reported_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "HOLD_S", 0.0)
    world = World()
    world.deploy(2, placement={"q/0": HOT})
    world.agent.step()
    assert world.reports == [(2, 2)]


@pytest.mark.parametrize("name", ["other/0", "q/1", "q/1+2"])
def test_plan_for_another_operator_leaves_an_even_spread(name: str) -> None:
    world = World()
    world.deploy(2, placement={name: HOT})
    world.agent.step()
    assert world.loads() == [4, 4]


def test_plan_for_operators_that_share_a_stage_moves_both() -> None:
    world = World()
    world.deploy(2, placement={"q/0+3": HOT})
    world.agent.step()
    assert world.loads() == [1, 7]


def test_replaced_plan_is_followed_without_a_new_batch() -> None:
    world = World()
    world.deploy(2, placement={"q/0": HOT})
    world.agent.step()
    world.deploy(2, placement={"q/0": (1, 0, 0, 0, 0, 0, 0, 0)})
    world.agent.step()
    assert world.loads() == [7, 1]


def test_plan_waits_for_executors_that_have_not_arrived() -> None:
    world = World()
    world.deploy(3, placement={"q/0": (2, 2, 0, 0, 0, 1, 1, 1)})
    world.agent.step()
    assert world.loads() == [4, 4]
    world.cluster.come()
    world.agent.step()
    assert world.loads() == [3, 3, 2]


def test_partitions_of_a_lost_executor_return_with_its_successor() -> None:
    world = World(cluster=Cluster(["0", "1", "2"], 3))
    world.deploy(3, placement={"q/0": (0, 1, 2, 2, 2, 2, 2, 2)})
    world.agent.step()
    world.cluster.alive.remove("1")
    world.state.batch += 1
    world.agent.step()
    assert world.loads() == [2, 6]
    world.cluster.come()
    world.state.batch += 1
    world.agent.step()
    assert world.cluster.alive == ["0", "2", "3"] and world.loads() == [1, 6, 1]
    assert world.state.on[1] == "3" and world.notes[-1][1] == 1


def test_executors_of_a_new_driver_get_the_planned_partitions() -> None:
    world = World()
    world.deploy(2, placement={"q/0": (0, 2, 2, 2, 2, 2, 2, 2)})
    world.agent.step()
    assert world.loads() == [1, 7]


def test_executors_that_a_plan_leaves_out_are_released() -> None:
    world = World(cluster=Cluster(["0", "1", "2"], 3))
    world.query.busy = False
    world.deploy(3)
    world.agent.step()
    world.deploy(2, placement={"q/0": (2, 0, 0, 0, 0, 2, 2, 2)})
    world.agent.step()
    assert world.cluster.alive == ["0", "2"] and world.loads() == [4, 4]


def test_executors_stay_while_the_lake_is_unreadable() -> None:
    world = World(broken=True)
    world.agent.step()
    assert world.cluster.alive == ["0", "1"] and world.loads() == [4, 4]
