"""`down` stops the stack and says which jobs it has left alone."""

from __future__ import annotations

from pathlib import Path

from millrace.environment.home import Home
from millrace.local.cli.stack import jobs_left
from tests.include.run_folder import stand_in


def test_jobs_left_names_a_pipeline_whose_driver_runs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    run_dir = home.run / "drivers"
    for pipeline in ("orders", "ended"):
        (run_dir / pipeline).mkdir(parents=True)
    with stand_in.driver(run_dir, "orders"):
        assert jobs_left(home) == ["orders"]
    assert jobs_left(home) == []


def test_jobs_left_when_nothing_ever_ran_then_is_empty(tmp_path: Path) -> None:
    assert jobs_left(Home(tmp_path)) == []
