"""Generations under concurrent processes and damaged files."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from millrace.model.errors import MillraceError
from millrace.run_folder.generation import allot, newest


def test_allot_never_gives_a_number_twice_to_many_processes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        numbers = list(pool.map(allot, [tmp_path] * 40))
    assert sorted(numbers) == list(range(1, 41))
    assert newest(tmp_path) == 40


def test_newest_when_nothing_was_allotted_then_is_zero(tmp_path: Path) -> None:
    assert newest(tmp_path) == 0


def test_allot_refuses_a_damaged_counter(tmp_path: Path) -> None:
    allot(tmp_path)
    (tmp_path / "generation").write_text("x")
    with pytest.raises(MillraceError, match="whole number"):
        allot(tmp_path)


def test_allot_when_the_folder_cannot_be_made_then_says_which(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MillraceError, match="run folder"):
        allot(tmp_path / "file" / "app")
