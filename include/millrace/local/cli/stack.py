"""Commands of the local stack: set it up, start and stop it, read its logs, run the demo."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import click
from rich.console import Console

from millrace.environment.home import Home
from millrace.environment.jars import CONNECTORS
from millrace.local.stack import lifecycle
from millrace.local.stack.lifecycle import log_files, tail
from millrace.local.stack.services import addresses
from millrace.local.stack.setup import ensure_jars, ensure_spark, set_up
from millrace.local.stack.stack_record import StackRecord
from millrace.model.errors import MillraceError
from millrace.pipelines.catalog import FOLDERS_VARIABLE, load_all
from millrace.wiring import LAKE_VARIABLE


@click.command()
@click.argument("connectors", nargs=-1, type=click.Choice(sorted(CONNECTORS)))
def setup(connectors: tuple[str, ...]) -> None:
    """Install packages, jars (also those of CONNECTORS) and Spark's class archive."""
    set_up(connectors)
    click.echo("millrace: setup complete")


@click.command()
@click.option(
    "--wait", "wait_s", type=click.FloatRange(min=1), default=300.0, show_default=True, help="Seconds to wait."
)
def up(wait_s: float) -> None:
    """Start Airflow, MLflow and a Spark cluster on this machine and wait until all are healthy."""
    home = Home.from_env()
    ensure_spark()
    specs, _ = load_all()
    for name in sorted({name for spec in specs.values() for name in spec.submit.connectors}):
        ensure_jars(CONNECTORS[name])
    migrate_lake()
    record = start_with_progress(home, wait_s)
    console = Console()
    took = f" in {record.healthy_s:.0f} s" if record.healthy_s else ""
    console.print(f"The stack is healthy{took}. Stop it with ./millrace down.", style="green", highlight=False)
    print_addresses(console, home, record)
    if (other := lifecycle.started_otherwise(home)) is not None:
        console.print(str(other), style="yellow", markup=False, highlight=False, soft_wrap=True)


def migrate_lake() -> None:
    """Migrate a lake of an earlier version to the current schema."""
    from millrace.lake.migration import migrate_all
    from millrace.wiring import control_tables

    migrate_all(control_tables().lake)


def start_with_progress(home: Home, wait_s: float = 300.0) -> StackRecord:
    """Start the stack and show the services that are not yet healthy."""
    console = Console(stderr=True)
    with console.status("Starting the stack ...") as shown:

        def watch(record: StackRecord) -> None:
            missing = [name for name, s in record.services.items() if not s.well]
            shown.update(f"Starting the stack: waiting for {', '.join(missing)}")

        return lifecycle.up(home, wait_s=wait_s, watch=watch)


def print_addresses(console: Console, home: Home, record: StackRecord) -> None:
    """Print the addresses, the user and the path of the password file."""
    pages = addresses(home, record.ports)
    console.print(f"  Airflow  {pages['airflow']}\n  MLflow   {pages['mlflow']}", highlight=False, soft_wrap=True)
    console.print(f"  user {pages['user']}, password in {pages['password_file']}", highlight=False, soft_wrap=True)


@click.command()
def down() -> None:
    """Stop the local stack and anything a killed stack left behind; jobs keep running."""
    home = Home.from_env()
    with Console(stderr=True).status("Stopping the stack ..."):
        stopped = lifecycle.down(home)
    click.echo("The stack is down." if stopped else "The stack was not up.")
    for name in jobs_left(home):
        click.echo(
            f"{name} keeps running. On the embedded cluster, it processes nothing until the next ./millrace up. "
            f"To stop it at a batch boundary: ./millrace up, then ./millrace trigger {name} --stop"
        )


def jobs_left(home: Home) -> list[str]:
    """Return the pipelines with a running driver; the stack need not be up."""
    from millrace.run_folder.discovery import find

    records = home.run / "drivers"
    names = sorted(folder.name for folder in records.iterdir() if folder.is_dir()) if records.is_dir() else []
    return [name for name in names if find(records, name)]


POLL_S = 0.3


@click.command()
@click.argument("name")
@click.option("-n", "lines", type=click.IntRange(min=0), default=50, show_default=True, help="Lines from the end.")
@click.option("-f", "--follow", is_flag=True, help="Follow the log until Ctrl-C.")
def logs(name: str, lines: int, follow: bool) -> None:
    """Show the end of the log NAME: a service of the stack, a driver, or a pipeline's newest driver."""
    home = Home.from_env()
    files = log_files(home)
    apps = "|".join(re.escape(folder.name) for folder in (home.run / "drivers" / name).glob("*"))
    of_pipeline = [path for log, path in files.items() if re.fullmatch(rf"driver-{re.escape(name)}-({apps})-\d+", log)]
    if name not in files and of_pipeline:
        name = max(of_pipeline, key=lambda path: path.stat().st_mtime).stem
    if name not in files:
        allowed = ", ".join(files) or "none yet"
        raise MillraceError("log", name, allowed, "Choose one of these; ./millrace up creates the stack's logs.")
    for line in tail(files[name], lines):
        click.echo(line)
    if follow:
        _follow(files[name])


def _follow(path: Path) -> None:
    with path.open("rb") as log:
        log.seek(0, 2)
        while True:
            if os.fstat(log.fileno()).st_size < log.tell():
                log.seek(0)  # it was too large and started again
            if added := log.read():
                click.echo(added.decode(errors="replace"), nl=False)
            else:
                time.sleep(POLL_S)


@click.command()
@click.option("--days", type=float, help="Days to replay; fractions allowed. By default 0.54, for medallion 1.1.")
@click.option("--day-s", default=400.0, show_default=True, help="Seconds per replayed day.")
@click.option("--start-hour", type=int, help="Hour of the day to start at. By default 21, for medallion 20.")
@click.option("--fold-days", default=16, show_default=True, help="Days of flights merged into one replayed day.")
@click.option(
    "--pipeline",
    type=click.Choice(["delays", "medallion"]),
    default="delays",
    show_default=True,
    help="What to show: one app, or a chain of three.",
)
@click.option(
    "--source", type=click.Choice(["delta", "kafka"]), default="delta", show_default=True, help="What the job reads."
)
@click.option("--keep", is_flag=True, help="Leave the stack and the job running at the end.")
@click.option("--down", is_flag=True, help="Stop what --keep left running, and do nothing else.")
def demo(
    days: float | None,
    day_s: float,
    start_hour: int | None,
    fold_days: int,
    pipeline: str,
    source: str,
    keep: bool,
    down: bool,
) -> int:
    """Replay a night of flights of 2013 and watch real Spark jobs scale down and up with them.

    Exit code 0 if they scaled down, scaled up, caught up, and the results equal a batch computation.
    """
    from millrace.local.demo.demo_env import SHOWN, DemoEnv
    from millrace.local.demo.run import Demo
    from millrace.local.demo.terminal import console
    from millrace.local.feeds.replay_clock import Clock

    home, example = Home.from_env(), SHOWN.get((pipeline, source))
    if example is None:
        raise MillraceError("--source", source, f"delta with --pipeline={pipeline}", "Leave out --source.")
    env = DemoEnv.inside(home, example)
    if down:
        with env.locked():
            env.stop()
        return 0
    ensure_spark()
    clock = Clock(
        fold_days=fold_days,
        days=example.days if days is None else days,
        day_s=day_s,
        start_hour=example.start_hour if start_hour is None else start_hour,
        tick_s=2.0,
    )
    # everything the demo starts uses the demo's own home and sees no other pipeline
    os.environ["MILLRACE_HOME"] = str(env.home.root)
    for variable in (FOLDERS_VARIABLE, LAKE_VARIABLE):
        os.environ.pop(variable, None)
    if example.folder:
        os.environ[FOLDERS_VARIABLE] = str(example.folder)
    return 0 if Demo(home.reports / "demo.html", env, clock, console(), keep=keep).run() else 1
