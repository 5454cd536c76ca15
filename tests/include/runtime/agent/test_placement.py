"""Which state partitions a running query has, from its checkpoint's folders and what Spark shows of it."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from millrace.runtime.agent.placement import StatePlacement
from tests.include.runtime.progress import IDLE, RAN, ShownQuery, progress


@pytest.fixture
def placement(monkeypatch: pytest.MonkeyPatch) -> StatePlacement:
    def names(self: StatePlacement, folder: str) -> list[str]:
        return [entry.name for entry in Path(folder).iterdir()] if Path(folder).exists() else []

    monkeypatch.setattr(StatePlacement, "_names", names)
    return StatePlacement(MagicMock())


def numbers(placement: StatePlacement, query: ShownQuery) -> list[tuple[int, int]]:
    return [(partition.operator, partition.number) for partition in placement.partitions(query)]


def test_query_whose_first_trigger_finds_no_rows_has_its_partitions_once_it_has_run(
    placement: StatePlacement, tmp_path: Path
) -> None:
    query = ShownQuery(progress(0, IDLE), root=str(tmp_path))
    assert numbers(placement, query) == []
    for number in range(4):
        (tmp_path / "state" / "0" / str(number)).mkdir(parents=True)
    query.shown = progress(0, RAN, 4)
    assert numbers(placement, query) == [(0, n) for n in range(4)]


def test_query_that_resumes_without_rows_has_the_partitions_of_its_checkpoint(
    placement: StatePlacement, tmp_path: Path
) -> None:
    for number in range(8):
        (tmp_path / "state" / "0" / str(number)).mkdir(parents=True)
    query = ShownQuery(progress(7, IDLE), shuffle_partitions=4, root=str(tmp_path))
    assert len(numbers(placement, query)) == 4, "as many as the setting says, until a batch shows how many"
    query.shown = progress(7, RAN, 8)
    assert len(numbers(placement, query)) == 8


def test_folders_are_not_listed_again_once_a_batch_has_run(placement: StatePlacement, tmp_path: Path) -> None:
    query = ShownQuery(progress(0, RAN), root=str(tmp_path))
    assert numbers(placement, query) == []
    (tmp_path / "state" / "0" / "0").mkdir(parents=True)
    query.shown = progress(1, IDLE)
    assert numbers(placement, query) == [], "no operator, no state"


@pytest.mark.parametrize(
    ("shown", "newest"),
    [
        (None, -1),
        (progress(0, IDLE), -1),
        (progress(0, RAN, 4), 0),
        (progress(1, IDLE, 4), 0),
        (progress(1, RAN, 4), 1),
    ],
)
def test_trigger_without_rows_is_no_finished_batch(placement: StatePlacement, shown: object, newest: int) -> None:
    assert placement.batches([ShownQuery(shown)]) == {"run": newest}
