"""All interleavings of a small chain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from millrace.joins.mp2pf.chain import Chain
from millrace.joins.mp2pf.link import Row
from millrace.joins.mp2pf.rules import Rules


@dataclass(frozen=True)
class Small:
    """A case, and the maximum of other events at any time and place, in addition to blocks and deliveries."""

    rules: Rules
    rows: tuple[tuple[Row, ...], tuple[Row, ...]]
    workers: int = 2
    block: int = 1
    in_order: bool = True
    losses: int = 0
    doubles: int = 0
    adds: int = 0
    removes: int = 0

    @property
    def expected(self):
        rs, ss = self.rows
        return sorted((r, s) for r in rs for s in ss if self.rules.within(r[0], s[0]))


@dataclass(frozen=True)
class Budget:
    fed: tuple[int, int]
    losses: int
    doubles: int
    adds: int
    removes: int


@dataclass
class Found:
    """Results of the search: states, ends, states that lead to no end, and the first of each kind of violation."""

    states: int = 0
    ends: int = 0
    stuck: int = 0
    faults: dict = field(default_factory=dict)


def search(case: Small) -> Found:
    """Visit every reachable state; timers expire when no message is in flight."""
    found = Found()
    start = Chain(case.rules, case.workers, case.block)
    todo = [(start, Budget((0, 0), case.losses, case.doubles, case.adds, case.removes), None)]
    came_from: dict[object, list[object]] = {}
    ends = []
    while todo:
        chain, budget, before = todo.pop()
        key = hash((budget, state(chain)))
        if key in came_from:
            came_from[key].append(before)
            continue
        came_from[key] = [before]
        if judge(case, chain, budget, found):
            ends.append(key)
        todo.extend((after, rest, key) for after, rest in successors(case, chain, budget))
    found.states, found.ends = len(came_from), len(ends)
    found.stuck = found.states - len(leading_to(ends, came_from))
    return found


def leading_to(ends, came_from):
    """The states from which an end can be reached."""
    leading, todo = set(ends), list(ends)
    while todo:
        new = set(came_from[todo.pop()]) - leading - {None}
        leading |= new
        todo.extend(new)
    return leading


def judge(case: Small, chain: Chain, budget: Budget, found: Found) -> bool:
    """Record violations; say if this is an end: both streams ended and no message is in flight."""
    if len(chain.met) != len(set(chain.met)):
        found.faults.setdefault("doubled", chain)
    if not chain.quiet():
        return False
    for stream in (0, 1):
        along = chain.sizes(stream)[:: -1 if stream else 1]
        if any(own - successor > case.block for own, successor in pairwise(along)):
            found.faults.setdefault("uneven", chain)
    if budget.fed != (len(case.rows[0]) + 1, len(case.rows[1]) + 1):
        return False
    if sorted(set(chain.met)) != case.expected:
        found.faults.setdefault("lost", chain)
    if any(chain.sizes(0)) or any(chain.sizes(1)):
        found.faults.setdefault("left", chain)
    return True


def successors(case: Small, chain: Chain, budget: Budget):
    for link, direction in ((0, 1), (len(chain.workers), 0)):
        if chain.links[link][direction]:
            # messages to a source change nothing that another event could see: no need to try other orders
            after = chain.copy()
            after.deliver(link, direction)
            yield after, budget
            return
    yield from fed(case, chain, budget)
    yield from delivered(case, chain, budget)
    yield from changed(chain, budget)
    if not any(right or left for right, left in chain.links):
        for link, direction in chain.owed():
            after = chain.copy()
            after.resend(link, direction)
            yield after, budget


def fed(case: Small, chain: Chain, budget: Budget):
    """The next block of each stream, or its end."""
    for stream in (0, 1):
        rows, at = case.rows[stream], budget.fed[stream]
        if at > len(rows):
            continue
        after, until = chain.copy(), min(at + case.block, len(rows))
        if at == len(rows):
            after.flush(stream)
        else:
            after.feed(stream, rows[at:until], rows[min(until, len(rows) - 1)][0])
        count = until if at < len(rows) else at + 1
        counts = (count, budget.fed[1]) if stream == 0 else (budget.fed[0], count)
        yield after, replace(budget, fed=counts)


def delivered(case: Small, chain: Chain, budget: Budget):
    """Each message that may come next, possibly twice or never."""
    for link, queues in enumerate(chain.links):
        for direction, queue in enumerate(queues):
            for index in range(min(len(queue), 1) if case.in_order else len(queue)):
                after = chain.copy()
                after.deliver(link, direction, index)
                yield after, budget
                if budget.losses:
                    after = chain.copy()
                    after.drop(link, direction, index)
                    yield after, replace(budget, losses=budget.losses - 1)
                if budget.doubles:
                    after = chain.copy()
                    after.deliver(link, direction, index, keep=True)
                    yield after, replace(budget, doubles=budget.doubles - 1)


def changed(chain: Chain, budget: Budget):
    """A worker added next to, or merged into, any other."""
    for at in range(len(chain.workers)):
        for side in (0, 1) if budget.adds else ():
            after = chain.copy()
            after.add(at, side)
            yield after, replace(budget, adds=budget.adds - 1)
        if budget.removes and at:
            after = chain.copy()
            after.remove(at)
            yield after, replace(budget, removes=budget.removes - 1)


def state(chain: Chain):
    """Two chains have this in common exactly if the same may happen to them."""
    rests = tuple(tuple(map(tuple, w.rests)) for w in chain.workers)
    return rests, tuple(link_state(chain, i) for i in range(len(chain.links))), tuple(sorted(chain.met))


def link_state(chain: Chain, i: int):
    """State of a link: for versions only the order matters."""
    right_end = chain.workers[i - 1].ends[1] if i else chain.sources[0].end
    left_end = chain.workers[i].ends[0] if i < len(chain.workers) else chain.sources[1].end
    ends, queues = (right_end, left_end), chain.links[i]
    ranks = []
    for sender, receiver in ((0, 1), (1, 0)):
        end, other = ends[sender], ends[receiver]
        values = {end.announced, end.confirmed, other.heard}
        values |= {m.version for m in (*end.copies, *queues[sender])}
        values |= {m.seen for m in (*other.copies, *queues[receiver])}
        ranks.append({value: rank for rank, value in enumerate(sorted(values))})
    found = []
    for sender, receiver in ((0, 1), (1, 0)):
        end, own, its = ends[sender], ranks[sender], ranks[receiver]
        plain = (end.sent, end.taken, end.acknowledged, end.reported_size, end.peer_size)
        clocks = (end.clock, end.reported_clock)
        versions = (own[end.announced], own[end.confirmed], its[end.heard])
        messages = [
            tuple(m._replace(version=own[m.version], seen=its[m.seen]) for m in kept)
            for kept in (end.copies, queues[sender])
        ]
        found.append((plain, clocks, versions, *messages))
    return tuple(found)
