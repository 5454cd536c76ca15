"""The command replay, on a home with a recorded run and without a stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.local.cli import __main__ as cli
from millrace.local.cli.replay import parsed
from millrace.model.errors import MillraceError
from millrace.optimizers import registry
from millrace.optimizers.api import Options
from millrace.optimizers.registry import Registration, Role
from tests.include.control.recorded_run import DAY, Steady, launched, spec_of


class SteadyOptions(Options):
    patience: int = 1
    room: float = 0.8


class SteadyTuner(Steady):
    Options = SteadyOptions

    def __init__(self, options: SteadyOptions) -> None:
        super().__init__("steady", options.patience, options.room)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a recorded day; tests only read it."""
    home = tmp_path_factory.mktemp("home")
    launched(home, Steady("conttune"), spec_of("conttune")).day()
    return home


@pytest.fixture(autouse=True)
def home(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    steady = Registration("steady", Role.TUNER, f"{__name__}:SteadyTuner")
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, steady))
    monkeypatch.setenv("MILLRACE_HOME", str(recorded))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("MILLRACE_PIPELINES", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return recorded


def told(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert cli.main(["replay", *args]) == 0
    return capsys.readouterr().out


def test_replay_shows_the_recording_and_the_alternative(capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "delays", "--tuner", "steady", "--option", "patience=2")
    assert out.startswith("Replay of delays with steady (patience=2)\n")
    words = " ".join(out.split())
    for part in (
        "was done would be",
        "2 → 5",
        "core-seconds",
        "evaluations with too few slots",
        "modelled",
        "--all shows",
    ):
        assert part in words
    assert words.endswith("because slots differ from the recording.")
    assert max(map(len, out.splitlines())) <= 100


def test_replay_of_all_evaluations_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "delays", "--tuner", "steady", "--all")
    assert sum(line.startswith("01-01 12:") for line in out.splitlines()) == len(DAY)
    assert "are hidden" not in out


def test_replay_as_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "delays", "--tuner", "steady", "--option", "patience=3", "--json"))
    assert found["figures"]["evaluations"] == len(found["evaluations"]) == len(DAY)
    assert found["options"] == {"patience": 3} and found["mlflow_run_id"] is None
    assert {"recorded", "replayed", "modelled", "arrival_rows_per_s"} <= set(found["evaluations"][0])


def test_replay_with_a_figure_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "delays", "--tuner", "steady", "--figure", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert f"The figure is in {tmp_path / 'a.png'}" in out


@pytest.mark.parametrize("tuner", sorted(registry.names()))
def test_replay_with_any_tuner_writes_nothing(home: Path, tuner: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = {table: Lake(home / "lake").version(table) for table in TABLES}
    found = json.loads(told(capsys, "delays", "--tuner", tuner, "--json"))
    assert found["tuner"] == tuner and len(found["evaluations"]) == len(DAY)
    assert "optimizer_failed" not in {evaluation["replayed"]["reason_code"] for evaluation in found["evaluations"]}
    assert {table: Lake(home / "lake").version(table) for table in TABLES} == before


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["delay"], ["pipeline", "'delay'", "delays"]),
        (["delays", "--tuner", "contune"], ["tuner.name", "'contune'", "conttune"]),
        (["delays", "--tuner", "conttune", "--option", "alfa=3"], ["alfa", "3", "alpha"]),
        (["delays", "--tuner", "conttune", "--option", "alpha=-1"], ["alpha", "-1"]),
        (["delays", "--tuner", "steady", "--option", "patience"], ["--option", "KEY=VALUE"]),
        (["delays", "--tuner", "steady", "--since", "yesterday"], ["--since", "'yesterday'", "2h"]),
        (["delays", "--tuner", "steady", "--until", "soon"], ["--until", "'soon'"]),
        (["delays", "--tuner", "steady", "--since", "2014-01-01"], ["since", "2014-01-01", "2013-01-01 12:15:00"]),
        (["delays", "--tuner", "steady", "--until", "2012-01-01"], ["evaluated before 2012-01-01", "millrace trigger"]),
        (["delays", "--tuner", "steady", "--figure", "a.txt"], ["--figure", ".png"]),
    ],
    ids=" ".join,
)
def test_replay_of_bad_input_names_the_value_and_the_allowed_ones(
    args: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["replay", *args]) == cli.BAD_INPUT
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (("a=3", "b=0.5", "c=true"), {"a": 3, "b": 0.5, "c": True}),
        (("d=word", "e=[1, 2]", "f=x=y"), {"d": "word", "e": [1, 2], "f": "x=y"}),
        (("a=1", "a=2"), {"a": 2}),
        ((), {}),
    ],
)
def test_options_are_read_as_in_a_spec(given: tuple[str, ...], found: dict[str, Any]) -> None:
    assert parsed(given) == found


@pytest.mark.parametrize("text", ["=3", "alpha", "", "a=[1"])
def test_options_when_malformed_then_say_so(text: str) -> None:
    with pytest.raises(MillraceError, match="--option"):
        parsed((text,))
