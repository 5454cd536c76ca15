"""Terms of batches are fixed, found again, and cleaned up."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.joins.terms import KEPT, Move, Terms, TermsFolder
from include.model.errors import MillraceError
from include.model.join import JoinSettings


def test_terms_when_written_then_the_same_is_read(tmp_path: Path) -> None:
    terms = Terms(7, JoinSettings(3, 50, 0.25), {"r": 5, "s": -3}, (10, 0, 40), (Move(2, 1, 5),), ((1, 0), (1, 2)))
    folder = TermsFolder(tmp_path / "join")
    folder.write(terms)
    assert folder.read(7) == terms


def test_reach_when_workers_left_then_those_that_still_keep_or_hand_over_are_reached() -> None:
    settings = JoinSettings(2)
    assert Terms(0, settings).reach == (0, 1)
    assert Terms(1, settings, sizes=(5, 5, 0, 4)).reach == (0, 1, 3)
    assert Terms(1, settings, sizes=(9, 0, 0), moves=(Move(2, 0, 4),)).reach == (0, 1, 2)
    assert Terms(1, settings, sizes=(9, 0, 0), handed=((2, 0),)).reach == (0, 1, 2)


def test_begin_when_there_are_terms_then_they_stay(tmp_path: Path) -> None:
    folder = TermsFolder(tmp_path)
    folder.begin(JoinSettings(2))
    folder.begin(JoinSettings(5))
    assert folder.read(0).settings.workers == 2
    for batch_id in range(1, 30):
        folder.hand(batch_id, 0, 1, b"x")
        folder.write(Terms(batch_id, JoinSettings(3)))
    folder.begin(JoinSettings(5))
    assert sorted(p.name.split("-")[1] for p in tmp_path.glob("terms-*")) == [f"{i:09d}" for i in range(29 - KEPT, 30)]
    assert len(list(tmp_path.glob("handed-*"))) == KEPT + 1
    assert folder.handed(29, 0, 1) == b"x"


def test_read_when_terms_are_gone_then_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match="checkpoint"):
        TermsFolder(tmp_path).read(4)
