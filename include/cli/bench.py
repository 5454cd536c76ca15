"""The command bench."""

from __future__ import annotations

import importlib
from pathlib import Path

import click
from rich.console import Console

from include.contracts.errors import MillraceError
from include.stack.home import REPO

NOT_A_BENCH = {"__init__", "record", "delays_app", "downtime", "loop"}


def names() -> list[str]:
    """List the benchmarks: the modules of ``benchmarks/`` that have a ``run``."""
    return sorted(p.stem for p in (REPO / "benchmarks").glob("*.py") if p.stem not in NOT_A_BENCH)


@click.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Every scenario with fewer repetitions.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Also write the records here."
)
def bench(name: str | None, quick: bool, json_file: Path | None) -> None:
    """Measure the part NAME and print its figures against their targets; without NAME, list the parts."""
    from benchmarks import record

    if name is None:
        click.echo("\n".join(names()))
        return
    if name not in names():
        raise MillraceError("bench", name, ", ".join(names()), "Name one of these.")
    # asked before the work, because a bench can take minutes
    if json_file and not json_file.parent.is_dir():
        raise MillraceError("--json", str(json_file), "a file in a folder that exists", "Make the folder first.")
    records = importlib.import_module(f"benchmarks.{name}").run(quick)
    Console().print(record.table(records))
    if json_file:
        record.write(records, json_file)
