"""Source-sharing tasks: one chain for all, against a chain and a copy of the streams per task.

Reference: [ESJ-C] "Eliminating Stream Duplication".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from benchmarks.esj.feeding import Fed, Streams, feed, streams
from benchmarks.record import Record
from millrace.joins.mp2pf.link import Row
from millrace.joins.mp2pf.rules import Task, results, shared_rules

BENCH = "esj"
TASKS, QUICK_TASKS = (1, 2, 4, 8, 16, 32, 64), (1, 4, 16, 64)
WORKERS, BLOCK = 4, 16
WINDOW, QUICK_WINDOW = 160, 40
WINDOWS_FED = 4
Wanted = Mapping[str, Counter[tuple[Row, Row]]]
"""How often each pair is a result, by task."""


def records(quick: bool) -> Iterator[Record]:
    """Run every number of tasks; a copy's chain runs once per task, with the task's own windows.

    Args:
        quick: A smaller window, fewer numbers of tasks.
    """
    window = QUICK_WINDOW if quick else WINDOW
    both = streams(WINDOWS_FED * window, seed=0)
    counts = QUICK_TASKS if quick else TASKS
    every = tasks(max(counts), window)
    wanted = {task.name: _wanted(task, both) for task in every}
    alone = [feed(both, shared_rules([task]), WORKERS, BLOCK) for task in every]
    for n in counts:
        shared = feed(both, shared_rules(every[:n]), WORKERS, BLOCK)
        yield from _cost(f"sharing_{n}", "ours", [shared])
        yield from _cost(f"sharing_{n}", "copy_per_task", alone[:n])
        yield from _results(f"sharing_{n}", every[:n], shared, wanted)


def tasks(n: int, window: int) -> list[Task]:
    """Return different tasks: by key, or by the difference of counts, windows from a quarter to the full width.

    Args:
        n: Number of tasks.
        window: The widest window; the first task's.
    """
    spans = (window, window // 2, window // 4)
    return [Task(f"task{i}", -spans[i % 3], spans[i % 3], partial(PREDICATES[i % 2], i)) for i in range(n)]


def _same_key(i: int, r: Row, s: Row) -> bool:
    return bool((r[1][0] + i) % 50 == s[1][0])


def _near_counts(i: int, r: Row, s: Row) -> bool:
    return bool(abs(r[1][1] - s[1][1]) <= i % 8)


PREDICATES = (_same_key, _near_counts)


def _cost(scenario: str, method: str, chains: Sequence[Fed]) -> Iterator[Record]:
    # every chain gets the same tuples, but its windows fill at a different time
    for figure, unit in (("messages", "messages"), ("bytes", "bytes")):
        value = sum(getattr(fed.traffic, figure) / fed.tuples for fed in chains)
        yield Record(BENCH, scenario, method, f"{figure}_per_tuple", value, unit, n=len(chains))
    value = sum(fed.traffic.cpu_s / fed.tuples for fed in chains) * 1e6
    yield Record(BENCH, scenario, method, "serialising_us_per_tuple", value, "us", n=len(chains))


def _wanted(task: Task, both: Streams) -> Counter[tuple[Row, Row]]:
    # times are positions: pairs beyond the window need no check
    reach = int(max(task.before, -task.after)) + 1
    near = ((r, s) for r in both[0] for s in both[1][max(0, int(r[0]) - reach) : int(r[0]) + reach])
    return Counter((r, s) for r, s in near if task.wants(r, s))


def _results(scenario: str, every: Sequence[Task], shared: Fed, wanted: Wanted) -> Iterator[Record]:
    found = {name: Counter(pairs) for name, pairs in results(every, shared.met).items()}
    # counted, so that duplicates differ too
    different = sum(((found[t.name] - wanted[t.name]) + (wanted[t.name] - found[t.name])).total() for t in every)
    yield Record(BENCH, scenario, "ours", "matches_different", different, "pairs", n=len(every))
