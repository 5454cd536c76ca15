"""Running a script attached to a pipeline, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace import run
from millrace.places import SOURCES
from millrace.runtime import first_session


def test_missing_script_and_missing_words_are_named() -> None:
    with pytest.raises(SystemExit, match="usage: python"):
        run.main(["orders"])
    with pytest.raises(SystemExit, match="there is no script nowhere"):
        run.main(["--lake", "/lake", "orders", "nowhere.py"])
    with pytest.raises(SystemExit, match="--period-s: got 'often'; allowed: a number of seconds"):
        run.main(["--period-s", "often", "orders", "nowhere.py"])
    with pytest.raises(SystemExit, match="no option --laek"):
        run.main(["--laek", "/lake", "orders", "nowhere.py"])


def test_lake_and_period_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attached: list[object] = []
    monkeypatch.setattr(first_session, "on_first_session", lambda attach: attach("session"))
    monkeypatch.setattr("millrace.attach", lambda *given, period_s: attached.append((*given, period_s)))
    script = tmp_path / "script.py"
    script.write_text("")
    run.main(["--period-s", "20", "--lake", "/lake", "orders", str(script)])
    run.main(["orders", str(script)])
    run.main(["--lake=s3://a/b=c", "--period-s=5", "orders", str(script)])
    assert attached == [
        ("session", "orders", "/lake", 20.0),
        ("session", "orders", None, 60.0),
        ("session", "orders", "s3://a/b=c", 5.0),
    ]


def test_script_runs_as_the_main_program_with_its_own_arguments(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    script = tmp_path / "script.py"
    script.write_text("import sys, beside\nassert __name__ == '__main__'\nprint(beside.NAME, *sys.argv[1:])")
    program = [sys.executable, str(SOURCES / "millrace" / "run.py")]
    done = subprocess.run([*program, "orders", str(script), "--lake", "b"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["beside", "--lake", "b"]


def test_only_the_first_session_is_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    builder = type("Builder", (), {"getOrCreate": lambda self: SimpleNamespace(number=len(made))})
    monkeypatch.setattr(first_session, "SparkSession", SimpleNamespace(Builder=builder))
    first_session.on_first_session(made.append)
    sessions = [builder().getOrCreate(), builder().getOrCreate()]
    assert made == sessions[:1]


@pytest.mark.parametrize(
    ("lake", "missing", "told"),
    [
        (None, "nothing", "no lake. Pass lake=, or set MILLRACE_LAKE. The job continues."),
        ("/lake", "deltalake", "-m pip install '/path/to/a/clone/of/millrace[driver]'. The job continues."),
    ],
)
def test_driver_without_a_lake_or_a_package_is_told_and_goes_on(lake: str | None, missing: str, told: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import millrace; millrace.attach(None, 'orders', {lake!r})"
    env = {"PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stderr.count("orders: this driver is not attached") == 1 and told in done.stderr
    assert missing == "nothing" or missing in done.stderr
