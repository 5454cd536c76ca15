"""The command line: errors that help a person, exit codes, help."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from millrace.local.cli import __main__ as cli
from millrace.local.cli import bench, run_tests, stack
from millrace.local.stack import setup
from millrace.model.errors import Conflict
from millrace.places import REPO


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    return tmp_path


def test_command_when_unknown_then_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["statsu"]) == cli.BAD_INPUT
    assert "'statsu'" in (told := capsys.readouterr().err)
    assert "status" in told


@pytest.mark.parametrize("name", cli.LazyCommands().list_commands(click.Context(cli.millrace)))
def test_help_explains_every_command_and_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert "Usage: millrace" in capsys.readouterr().out
    command = cli.millrace.get_command(click.Context(cli.millrace), name)
    assert command and command.help
    assert not [p.name for p in command.params if isinstance(p, click.Option) and not p.help and not p.hidden]


def test_help_loads_no_command() -> None:
    code = (
        "import sys; from millrace.local.cli.__main__ import main; main(['--help'])\n"
        "heavy = {'pyspark', 'mlflow', 'airflow', 'pandas', 'deltalake', 'psutil', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPO)


def test_unexpected_error_is_one_line_and_a_log(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError("a surprise")

    monkeypatch.setattr(cli.millrace, "get_command", lambda ctx, name: broken)
    assert cli.main(["status"]) == cli.UNEXPECTED
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert str(home / "logs" / "errors.log") in told
    assert "Traceback" in (home / "logs" / "errors.log").read_text()
    assert (home / "logs").stat().st_mode & 0o777 == 0o700


def test_outrun_change_is_told_without_a_log(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def outrun() -> None:
        raise Conflict("20 other changes were committed first; try again")

    monkeypatch.setattr(cli.millrace, "get_command", lambda ctx, name: outrun)
    assert cli.main(["pause"]) == cli.UNEXPECTED
    assert capsys.readouterr().err == "millrace: 20 other changes were committed first; try again\n"
    assert not (home / "logs").exists()


def test_home_of_another_user_is_told_without_a_traceback(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def closed(_home: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(home / "secrets"))

    monkeypatch.setattr("millrace.local.stack.lifecycle.down", closed)
    assert cli.main(["down"]) == cli.BAD_INPUT
    told = capsys.readouterr().err
    assert f"{home / 'secrets'}: permission denied" in told and "MILLRACE_HOME" in told and told.count("\n") == 1
    assert not (home / "logs").exists()


def test_logs_when_the_name_is_unknown_then_names_the_known_ones(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "logs").mkdir()
    (home / "logs" / "scheduler.log").write_text("".join(f"line {i}\n" for i in range(100)))
    assert cli.main(["logs", "shceduler"]) == cli.BAD_INPUT
    assert "scheduler" in capsys.readouterr().err
    assert cli.main(["logs", "scheduler", "-n", "2"]) == 0
    assert capsys.readouterr().out == "line 98\nline 99\n"


def test_logs_shows_long_lines_as_a_whole(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "logs").mkdir()
    lines = [f"{letter * 5000}é\n" for letter in "abc"]
    (home / "logs" / "scheduler.log").write_text("".join(lines), encoding="utf-8")
    for count in (1, 2, 3, 4):
        assert cli.main(["logs", "scheduler", "-n", str(count)]) == 0
        assert capsys.readouterr().out == "".join(lines[-count:])


def test_logs_shows_the_log_of_a_driver(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "logs" / "drivers").mkdir(parents=True)
    (home / "logs" / "drivers" / "driver-orders-orders-3.log").write_text("one\ntwo\n")
    assert cli.main(["logs", "driver-orders-orders-3", "-n", "1"]) == 0
    assert capsys.readouterr().out == "two\n"
    assert cli.main(["logs", "orders"]) == cli.BAD_INPUT
    assert "driver-orders-orders-3" in capsys.readouterr().err


def test_logs_of_a_pipeline_is_that_of_its_newest_driver(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "logs" / "drivers").mkdir(parents=True)
    for age, (name, number) in enumerate((("orders-eu", 7), ("orders", 10), ("orders", 9))):
        log = home / "logs" / "drivers" / f"driver-{name}-{name}-{number}.log"
        log.write_text(f"{name} {number}\n")
        os.utime(log, (1000 - age, 1000 - age))
        (home / "run" / "drivers" / name / name).mkdir(parents=True, exist_ok=True)
    assert cli.main(["logs", "orders"]) == 0
    assert capsys.readouterr().out == "orders 10\n"


def test_followed_log_is_shown_from_its_start_once_it_was_cut(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "logs").mkdir()
    log = home / "logs" / "scheduler.log"
    log.write_text("old line\n" * 10)
    later = iter(["new line\n"])

    def sleep(_seconds: float) -> None:
        if (text := next(later, None)) is None:
            raise KeyboardInterrupt
        log.write_text(text)

    monkeypatch.setattr(stack.time, "sleep", sleep)
    assert cli.main(["logs", "scheduler", "-n", "1", "-f"]) == cli.INTERRUPTED
    assert capsys.readouterr().out == "old line\nnew line\n"


def test_status_when_the_stack_is_down_then_says_how_to_start_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status"]) == 0
    assert "./millrace up" in capsys.readouterr().out


def test_bench_when_the_name_is_unknown_then_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "stak"]) == cli.BAD_INPUT
    assert "stack" in capsys.readouterr().err


def test_bench_when_a_part_uses_no_randomness_then_refuses_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "latency", "--seed", "3"]) == cli.BAD_INPUT
    assert "--seed" in capsys.readouterr().err


@pytest.mark.parametrize(("part", "allowed"), [("placement", "one_to_one"), ("latency", "has no scenarios")])
def test_bench_when_a_scenario_is_unknown_then_names_the_known_ones(
    part: str, allowed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", part, "--scenario", "skewed"]) == cli.BAD_INPUT
    error = capsys.readouterr().err
    assert "skewed" in error and allowed in error


@pytest.mark.parametrize("name", bench.bench_names())
def test_bench_lists_everything_that_can_be_measured(name: str) -> None:
    assert callable(bench.bench_module(name).run)


def test_bench_leaves_out_no_measurable_module() -> None:
    runs = {file for file in (REPO / "benchmarks").glob("*.py") if "\ndef run(quick: bool" in file.read_text()}
    assert {file.stem for file in runs} == set(bench.FILES)


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is set up: a test of the command must not change its own environment."""
    monkeypatch.setattr(setup, "ensure_packages", lambda lock: None)
    monkeypatch.setattr(setup, "ensure_spark", lambda: None)


PASSING = "def test_good():\n    assert True\n"
FAILING = "def test_bad():\n    assert False\n"


@pytest.mark.parametrize(("content", "code"), [(PASSING, 0), (FAILING, 1)])
def test_test_when_run_on_one_file_then_the_exit_code_is_its_result(
    tmp_path: Path, content: str, code: int, capfd: pytest.CaptureFixture[str], set_up: None
) -> None:
    chosen = tmp_path / "test_chosen.py"
    chosen.write_text(content)
    assert cli.main(["test", "--stage", "unit", "--rootdir", str(tmp_path), str(chosen)]) == code
    summary = capfd.readouterr().err.rpartition("summary")[2]
    assert ("test_bad" in summary) == bool(code)


def test_test_when_nothing_is_selected_then_it_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], set_up: None
) -> None:
    chosen = tmp_path / "test_chosen.py"
    chosen.write_text(PASSING)
    assert cli.main(["test", "--stage", "unit", "-k", "no_such_test", str(chosen)]) == 1
    assert "no test was selected" in capfd.readouterr().err


def test_stages_together_run_each_test_once() -> None:
    """Every combination of markers belongs to exactly one stage."""
    marks = ("spark", "airflow", "e2e", "platform", "versions", "research")
    for chosen in range(2 ** len(marks)):
        given = {mark: bool(chosen >> i & 1) for i, mark in enumerate(marks)}
        runs = [stage for stage, expression in run_tests.STAGES.items() if eval(expression, {}, given)]
        assert len(runs) == 1, (given, runs)
