"""An even placement of state partitions, and one that follows a plan."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from millrace.runtime.agent.placement import follow, spread

IDS = [str(i) for i in range(8)]
LOCATED = st.lists(st.sampled_from([*IDS, None]), max_size=40).map(lambda on: dict(enumerate(on)))
EXECUTORS = st.lists(st.sampled_from(IDS), min_size=1, unique=True)


@given(LOCATED, EXECUTORS)
def test_every_partition_is_placed_evenly(located: dict[int, str | None], executors: list[str]) -> None:
    placed = spread(located, executors)
    assert set(placed) == set(located)
    share = Counter({executor: 0 for executor in executors})
    share.update(placed.values())
    assert set(share) == set(executors)
    assert max(share.values()) - min(share.values()) <= 1


@given(LOCATED, EXECUTORS)
def test_no_even_placement_moves_fewer(located: dict[int, str | None], executors: list[str]) -> None:
    placed = spread(located, executors)
    moved = sum(located[number] != executor for number, executor in placed.items())
    # executors above the even share must give away the rest, and the extra one goes to those with most
    held = sorted((sum(on == executor for on in located.values()) for executor in executors), reverse=True)
    share, rest = divmod(len(located), len(executors))
    most_kept = sum(min(count, share + (rank < rest)) for rank, count in enumerate(held))
    assert moved == len(located) - most_kept


@given(LOCATED, EXECUTORS)
def test_even_placement_stays_as_it_is(located: dict[int, str | None], executors: list[str]) -> None:
    placed = spread(located, executors)
    assert spread(placed, executors) == placed


PLANNED = st.dictionaries(st.integers(0, 45), st.sampled_from(IDS))


@given(PLANNED, LOCATED, EXECUTORS)
def test_plan_is_followed_if_its_executors_are_present(
    planned: dict[int, str], located: dict[int, str | None], executors: list[str]
) -> None:
    placed = follow(planned, located, executors)
    assert set(placed) == set(located) and set(placed.values()) <= set(executors)
    assert all(placed[n] == e for n, e in planned.items() if e in executors and n in located)


def test_partitions_stay_while_their_planned_executor_is_not_ready() -> None:
    located = {0: "0", 1: "0", 2: "0", 3: "1"}
    assert follow({0: "0", 1: "2", 2: "2", 3: "1"}, located, ["0", "1"]) == located


@given(LOCATED, EXECUTORS)
def test_missing_plan_is_an_even_spread(located: dict[int, str | None], executors: list[str]) -> None:
    assert follow({}, located, executors) == spread(located, executors)


@given(PLANNED, LOCATED, EXECUTORS)
def test_plan_already_followed_moves_nothing_more(
    planned: dict[int, str], located: dict[int, str | None], executors: list[str]
) -> None:
    once = follow(planned, located, executors)
    assert follow(planned, once, executors) == once  # type: ignore[arg-type]
