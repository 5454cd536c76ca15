"""Commands for the local stack: setup, up, down."""

from __future__ import annotations

import click
from rich.console import Console

from include.local.stack import lifecycle
from include.local.stack.home import Home
from include.local.stack.record import StackRecord
from include.local.stack.services import addresses


@click.command()
def setup() -> None:
    """Set up environment, jars and secrets in this folder; the launcher has done so before this runs."""
    click.echo("millrace: set up")


@click.command()
@click.option(
    "--wait", "wait_s", type=click.FloatRange(min=1), default=300.0, show_default=True, help="Seconds to wait."
)
def up(wait_s: float) -> None:
    """Start Airflow and MLflow on this machine and wait until every part is healthy."""
    home = Home.from_env()
    record = start_with_progress(home, wait_s)
    console = Console()
    took = f" in {record.healthy_s:.0f} s" if record.healthy_s else ""
    console.print(f"The stack is healthy{took}. Stop it with ./millrace down.", style="green", highlight=False)
    print_addresses(console, home, record)


def start_with_progress(home: Home, wait_s: float = 300.0) -> StackRecord:
    """Bring the stack up, naming the parts that are still to come.

    Args:
        home: Whose stack.
        wait_s: Seconds to wait.
    """
    console = Console(stderr=True)
    with console.status("Starting the stack ...") as shown:

        def watch(record: StackRecord) -> None:
            missing = [name for name, s in record.services.items() if s.state not in ("healthy", "done")]
            shown.update(f"Starting the stack: waiting for {', '.join(missing)}")

        return lifecycle.up(home, wait_s=wait_s, watch=watch)


def print_addresses(console: Console, home: Home, record: StackRecord) -> None:
    """Tell where the pages are and where the password is.

    Args:
        console: Where to print.
        home: Whose stack.
        record: The running stack.
    """
    found = addresses(home, record.ports)
    console.print(f"  Airflow  {found['airflow']}\n  MLflow   {found['mlflow']}", highlight=False, soft_wrap=True)
    console.print(f"  user {found['user']}, password in {found['password_file']}", highlight=False, soft_wrap=True)


@click.command()
def down() -> None:
    """Stop the local stack, and whatever a killed one left behind; jobs run on."""
    home = Home.from_env()
    with Console(stderr=True).status("Stopping the stack ..."):
        stopped = lifecycle.down(home)
    click.echo("The stack is down." if stopped else "The stack was not up.")
    for name in jobs_left(home):
        click.echo(f"{name} runs on. To end it at a batch boundary: ./millrace up, ./millrace trigger {name} --stop")


def jobs_left(home: Home) -> list[str]:
    """Name the pipelines whose drivers run, stack or no stack.

    Args:
        home: Whose pipelines.
    """
    from include.run_folder.discovery import find

    records = home.run / "drivers"
    names = sorted(folder.name for folder in records.iterdir() if folder.is_dir()) if records.is_dir() else []
    return [name for name in names if find(records, name)]
