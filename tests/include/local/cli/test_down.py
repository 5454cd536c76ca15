"""`down` stops the stack and says which jobs it has left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from millrace.local.cli.stack import jobs_left
from millrace.local.stack.home import Home
from millrace.run_folder.arguments import DriverArguments


def test_jobs_left_names_a_pipeline_whose_driver_runs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    run_dir = home.run / "drivers"
    for pipeline in ("orders", "ended"):
        (run_dir / pipeline).mkdir(parents=True)
    script = tmp_path / "run_script.py"
    script.write_text("import time\ntime.sleep(60)\n")
    times = (60.0, 120.0, 60.0)
    arguments = DriverArguments("orders", "orders", 1, 1, 1, 0, run_dir, "/lake", *times, Path("/s.py"))
    driver = subprocess.Popen([sys.executable, str(script), *arguments.argv()])
    try:
        assert jobs_left(home) == ["orders"]
    finally:
        driver.kill()
        driver.wait()
    assert jobs_left(home) == []


def test_jobs_left_when_nothing_ever_ran_then_is_empty(tmp_path: Path) -> None:
    assert jobs_left(Home(tmp_path)) == []
