"""Parts that fail, and parts that have been measured before."""

from __future__ import annotations

from pathlib import Path

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.runs import Run

RUN = Run({"core_seconds": 400.0}, [0.5], 4.0, [1.0, 2.0])


def works(_: str) -> Run:
    return RUN


def fails(_: str) -> Run:
    raise RuntimeError("no executor started")


def test_part_that_was_measured_before_is_not_measured_again(tmp_path: Path) -> None:
    assert Attempts("elastic", tmp_path / "new").attempt("day", "live", works, Run) == RUN
    again = Attempts("elastic", tmp_path / "new")
    assert again.attempt("day", "live", fails, Run) == RUN
    assert again.failures == []
    assert again.attempt("day", "fixed_4", fails, Run) is None, "another method is another part"


def test_failure_is_a_record_and_is_measured_again(tmp_path: Path) -> None:
    attempts = Attempts("elastic", tmp_path)
    assert attempts.attempt("day", "live", fails, Run) is None
    assert [(r.scenario, r.method, r.figure, r.holds) for r in attempts.failures] == [("day", "live", "failed", False)]
    assert attempts.attempt("day", "live", works, Run) == RUN


def test_without_a_folder_or_a_class_everything_is_measured(tmp_path: Path) -> None:
    for attempts, kind in ((Attempts("elastic"), Run), (Attempts("elastic", tmp_path), None)):
        assert attempts.attempt("day", "live", works, kind) == RUN
        assert attempts.attempt("day", "live", fails, kind) is None
    assert not list(tmp_path.iterdir())


def test_parts_have_folders_of_their_own() -> None:
    attempts, names = Attempts("elastic"), list[str]()
    for _ in range(2):
        attempts.attempt("day", "live", names.append)
    assert len(set(names)) == 2
