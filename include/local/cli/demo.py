"""The command demo."""

from __future__ import annotations

import os

import click

from include.local.stack.home import Home


@click.command()
@click.option("--days", default=0.9, show_default=True, help="Replayed days, or a part of one.")
@click.option("--day-s", default=360.0, show_default=True, help="Seconds a replayed day takes.")
@click.option("--start-hour", default=5, show_default=True, help="Hour of the day to start at.")
@click.option("--fold-days", default=14, show_default=True, help="Days of flights laid over one replayed day.")
@click.option("--keep", is_flag=True, help="Leave the stack and the job up at the end.")
@click.option("--down", is_flag=True, help="Only stop what --keep left up.")
def demo(days: float, day_s: float, start_hour: int, fold_days: int, keep: bool, down: bool) -> int:
    """Replay a day of flights of 2013 and watch a real Spark job grow and shrink with them.

    Exit code 0 only if the job scaled up, scaled down, caught up, and its results equal a batch computation.
    """
    from include.local.demo.run import Demo, Options
    from include.local.demo.stage import Stage
    from include.local.demo.view import console
    from include.local.feeds.replay import Clock

    home = Home.from_env()
    stage = Stage.inside(home, "delays")
    if down:
        with stage.locked():
            stage.stop()
        return 0
    clock = Clock(fold_days=fold_days, days=days, day_s=day_s, start_hour=start_hour, tick_s=2.0)
    # everything the demo starts lives in its own home and knows no other pipeline
    os.environ["MILLRACE_HOME"] = str(stage.home.root)
    os.environ.pop("MILLRACE_PIPELINES", None)
    return 0 if Demo(home, Options(clock, keep), console()).run() else 1
