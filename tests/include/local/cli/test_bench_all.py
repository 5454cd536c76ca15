"""All benchmarks in sequence: results are kept, however the run ends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.record import Record, read, write
from millrace.local.cli import __main__ as cli
from millrace.local.cli.bench_all import Measurement, measure_all
from millrace.model.errors import MillraceError

PARTS = [Measurement("a"), Measurement("b", "one"), Measurement("b", "two", seed=7)]
Run = Callable[[Sequence[str]], int]


def record(bench: str, scenario: str) -> Record:
    return Record(bench, scenario, "ours", "time_s", 1.0, "s")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Starts these instead of benchmarks. Each writes one record; ``b two`` fails."""
    calls: list[list[str]] = []

    def run(argv: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        calls.append([word for word in argv[4:] if not word.startswith("--json=")])
        if "--scenario=two" in argv and len(calls) == 3:
            return subprocess.CompletedProcess(argv, 1)
        scenario = next((word.removeprefix("--scenario=") for word in argv if "--scenario=" in word), "whole")
        file = next(word for word in argv if word.startswith("--json=")).removeprefix("--json=")
        seed = 7 if "--seed=7" in argv else 0
        write([replace(record(argv[4], scenario), seed=seed)], Path(file))
        return subprocess.CompletedProcess(argv, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def measured(file: Path) -> list[tuple[str, str]]:
    return [(r.bench, r.scenario) for r in read(file)]


def test_parts_with_figures_are_not_measured_again(tmp_path: Path, started: list[list[str]]) -> None:
    file, console = tmp_path / "all.json", Console(quiet=True)
    assert measure_all(PARTS, file, ["--quick"], console) == 1
    assert started == [
        ["a", "--quick"],
        ["b", "--quick", "--scenario=one"],
        ["b", "--quick", "--scenario=two", "--seed=7"],
    ]
    assert measured(file) == [("a", "whole"), ("b", "one")]
    assert measure_all(PARTS, file, ["--quick"], console) == 0
    assert started[3:] == [["b", "--quick", "--scenario=two", "--seed=7"]]
    assert measured(file) == [("a", "whole"), ("b", "one"), ("b", "two")]


def test_part_is_done_once_the_scenario_that_it_returns_has_figures() -> None:
    part = Measurement("b", "workloads", gives="psfcw")
    assert part.done([record("b", "psfcw")])
    assert not part.done([record("b", "ptfcw"), record("a", "psfcw")])
    assert not part.done([replace(record("b", "psfcw"), seed=7)]), "another seed is another measurement"


def test_interrupted_part_keeps_earlier_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "all.json"
    write([record("a", "whole")], file)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure_all(PARTS, file, [], Console(quiet=True))
    assert measured(file) == [("a", "whole")]


@pytest.mark.parametrize("content", ["[{}]", "{", '{"a": 1}', "[3]"])
def test_file_of_another_kind_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    file = tmp_path / "all.json"
    file.write_text(content)
    with pytest.raises(MillraceError, match="a JSON list of records"):
        measure_all(PARTS, file, [], Console(quiet=True))
    assert file.read_text() == content


def test_all_without_a_file_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "all"]) == cli.BAD_INPUT
    assert "--json FILE" in capsys.readouterr().err


def test_benchmark_that_cannot_be_resumed_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "latency", "--resume", "runs"]) == cli.BAD_INPUT
    assert "--resume" in capsys.readouterr().err
