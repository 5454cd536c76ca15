"""A node starts, stops and retries its streams. With a lock per stream, no two nodes run the same one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.fleet.streams import LONGEST_RETRY_S, Phase, Streams, backoff_s

NODES, NAMES = range(2), "ab"


class Fleet:
    """Nodes, the lock of each stream, and all that happens outside the deciding threads."""

    def __init__(self) -> None:
        self.now = 0.0
        self.deployed: dict[str, int] = {}
        self.locks: dict[str, int] = {}
        self.nodes: dict[int, Streams] = {}
        self.attempts: dict[int, set[str]] = {}
        self.stopping: dict[int, set[str]] = {}
        for node in NODES:
            self.kill(node)

    def kill(self, node: int) -> None:
        """Lose everything that a node knows; the kernel frees its locks."""
        self.nodes[node], self.attempts[node], self.stopping[node] = Streams(most_starts=1), set(), set()
        self.locks = {name: holder for name, holder in self.locks.items() if holder != node}

    def step(self, node: int) -> None:
        """Read the newest Deployment and act on it; until then, a node acts on an older one."""
        assigned = {name for name, at in self.deployed.items() if at == node}
        streams, there = self.nodes[node], {stream.name: stream.phase for stream in self.nodes[1 - node]}
        leaving = streams.leaving({name: str(at) for name, at in self.deployed.items() if at != node})
        kept = {name for names in leaving.values() for name in names if streams.stays(name, there.get(name))}
        here = {stream.name for stream in streams if streams.wanted(stream.name) and stream.name in self.deployed}
        plan = streams.plan(assigned | kept, self.now)
        taken = {name for name, phase in there.items() if phase is Phase.BLOCKED}
        assert all(name in taken or name not in self.deployed for name in plan.stops), "stopped too early"
        assert here <= there.keys() | {stream.name for stream in streams}, "no node has it any more"
        for name in plan.starts:
            assert name not in self.attempts[node] and self.locks.get(name) != node, "started twice"
            self.attempts[node].add(name)
        for name in plan.stops:
            assert self.locks[name] == node and name not in self.stopping[node], "stopped twice"
            self.stopping[node].add(name)
        for stream in self.nodes[node]:
            if stream.phase is Phase.BLOCKED and stream.name not in self.locks:
                self.nodes[node].unblocked(stream.name, self.now)
                self.attempts[node].add(stream.name)

    def attempt(self, node: int, name: str, *, fails: bool = False) -> None:
        """End an attempt to start a stream."""
        if name not in self.attempts[node]:
            return
        self.attempts[node].remove(name)
        if not self.nodes[node].wanted(name):
            self.nodes[node].ended(name, self.now)
        elif fails:
            self.nodes[node].failed(name, "no table", self.now)
        elif name in self.locks:
            self.nodes[node].blocked(name, f"node{self.locks[name]}", self.now)
        else:
            self.locks[name] = node
            self.nodes[node].started(name, self.now)

    def end(self, node: int, name: str, *, fails: bool = False) -> None:
        """End a query: because it is stopped, or by a failure."""
        if name in self.stopping[node]:
            self.stopping[node].remove(name)
            del self.locks[name]
            self.nodes[node].ended(name, self.now)
        elif fails and self.locks.get(name) == node:
            del self.locks[name]
            self.nodes[node].failed(name, "poison", self.now)

    def ready(self, node: int, name: str) -> None:
        if self.locks.get(name) == node:
            self.nodes[node].ready(name, self.now)
            self.nodes[node].healthy(name)

    def check(self) -> None:
        live = [(s.name, node) for node in NODES for s in self.nodes[node] if s.live]
        assert dict(live) == self.locks and len(live) == len(self.locks), "a query without its lock"

    def settle(self) -> None:
        """Let everything that is under way end, without failures."""
        for _ in range(20):
            self.now += LONGEST_RETRY_S
            for node in NODES:
                self.step(node)
                for name in NAMES:
                    self.attempt(node, name)
                    self.ready(node, name)
                    self.end(node, name)
                self.check()


EVENTS = ("deploy", "step", "step", "attempt", "end", "ready", "kill", "wait")
EVENT = st.tuples(st.sampled_from(EVENTS), st.sampled_from(NODES), st.sampled_from(NAMES), st.booleans())


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENT, min_size=60, max_size=120))
def test_streams_run_once_at_most_and_in_the_end_where_deployed(events: Sequence[tuple[str, int, str, bool]]) -> None:
    fleet = Fleet()
    for event, node, name, odd in events:
        if event == "deploy":
            fleet.deployed[name] = node
            if odd:
                del fleet.deployed[name]
        elif event in ("attempt", "end"):
            getattr(fleet, event)(node, name, fails=odd)
        elif event == "ready":
            fleet.ready(node, name)
        elif event == "wait":
            fleet.now += 40.0 if odd else 1.0
        elif event != "kill" or odd:
            getattr(fleet, event)(node)
        fleet.check()
    fleet.settle()
    assert fleet.locks == fleet.deployed
    phases = {(s.name, node): (s.phase, s.failures) for node in NODES for s in fleet.nodes[node]}
    assert phases == {stream: (Phase.RUNNING, 0) for stream in fleet.deployed.items()}


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 10_000))
def test_back_off_doubles_up_to_its_limit(failures: int) -> None:
    assert backoff_s(1) == 1.0 <= backoff_s(failures) <= LONGEST_RETRY_S == backoff_s(10)
    assert backoff_s(failures + 1) == min(2 * backoff_s(failures), LONGEST_RETRY_S)


def test_failed_stream_waits_longer_each_time_until_a_batch_succeeds() -> None:
    streams, now = Streams(), 0.0
    for failures in range(1, 4):
        assert streams.plan("a", now).starts == ("a",)
        streams.failed("a", "poison", now)
        assert (streams["a"].failures, streams["a"].error) == (failures, "poison")
        now += 2.0 ** (failures - 1)
        assert not streams.plan("a", now - 0.1).starts
    streams.plan("a", now)
    streams.started("a", now)
    streams.ready("a", now)
    assert streams["a"].failures == 3, "an idle query proves nothing"
    streams.healthy("a")
    streams.failed("a", "poison", now)
    assert streams["a"].retry_at == now + 1.0


def test_500_streams_start_in_waves_and_slow_ones_hold_up_no_other() -> None:
    names, streams, started = [f"s{n}" for n in range(500)], Streams(most_starts=8, patience_s=30.0), set()
    hung = set(streams.plan(names, 0.0).starts)
    assert len(hung) == 8 and not streams.plan(names, 29.0).starts
    now = 30.0
    while starts := streams.plan(names, now).starts:
        assert len(starts) <= 8 and not started & set(starts)
        started |= set(starts)
        for name in starts:
            streams.started(name, now)
            streams.ready(name, now)
        now += 1.0
    assert started | hung == set(names)


def test_waiting_for_a_lock_is_no_failure_and_takes_no_others_turn() -> None:
    streams = Streams(most_starts=1)
    assert streams.plan("ab", 0.0).starts == ("a",)
    streams.blocked("a", "p/node1 (pid 7)", 0.0)
    assert streams.plan("ab", 0.0).starts == ("b",)
    streams.blocked("a", "p/node2 (pid 8)", 5.0)
    stream = streams["a"]
    assert (stream.phase, stream.since, stream.holder, stream.failures) == (Phase.BLOCKED, 0.0, "p/node2 (pid 8)", 0)


def test_stream_that_waits_to_move_starts_again_while_the_other_node_cannot_start() -> None:
    streams = Streams()

    def kept(there: Phase | None) -> set[str]:
        leaving = streams.leaving({"a": "node1"}).get("node1", set())
        return {name for name in leaving if streams.stays(name, there)}

    streams.plan("a", 0.0)
    streams.started("a", 0.0)
    streams.ready("a", 0.0)
    assert kept(None) == kept(Phase.STARTING) == {"a"} and kept(Phase.BLOCKED) == set()
    streams.plan(kept(None), 1.0)
    streams.failed("a", "another schema", 2.0)
    assert kept(Phase.QUEUED) == set(), "the other node starts it"
    assert not streams.plan(kept(None), 2.5).starts
    assert streams.plan(kept(None), 3.0).starts == ("a",)
