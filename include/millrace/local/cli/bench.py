"""The command bench: run one benchmark and print its figures with their targets."""

from __future__ import annotations

import importlib
import inspect
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import click
from rich.console import Console

from millrace.local.stack.setup import ensure_spark
from millrace.model.errors import MillraceError
from millrace.places import REPO

ALL = "all"
FILES = ("capacity", "stack")
"""Benchmarks that are a single module; the others are packages."""
WIDTH = 120
"""Columns of the tables if the output is not a terminal."""


def bench_names() -> list[str]:
    """List the benchmarks: modules of ``benchmarks/``, and packages that have a module ``bench``."""
    return sorted((*FILES, *(p.parent.name for p in (REPO / "benchmarks").glob("*/bench.py"))))


def bench_module(name: str) -> ModuleType:
    """Import a benchmark.

    It has ``run(quick) -> list[Record]``. ``run`` may also take ``seed``, ``rivals``, ``resume`` (a folder) and
    ``scenarios``, a subset of the module's ``SCENARIOS`` (names, or a mapping from names to the scenario in their
    records). An optional
    ``report(records)`` formats the records for a terminal.
    """
    package = (REPO / "benchmarks" / name).is_dir()
    return importlib.import_module(f"benchmarks.{name}.bench" if package else f"benchmarks.{name}")


@click.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Run every scenario with fewer repetitions.")
@click.option("--scenario", "scenarios", multiple=True, help="Run only this scenario; repeatable.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed for benchmarks with random moments, victims or inputs.")
@click.option("--no-rivals", is_flag=True, help="Leave out rival methods if the benchmark can run without them.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path),
    help="Also write the records to this file, or to this folder with one file per scenario. Replaces older records.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="Keep each method's run in this folder, and measure only those that it does not have of this commit and seed.",
)
def bench(
    name: str | None,
    quick: bool,
    scenarios: Sequence[str],
    seed: int | None,
    no_rivals: bool,
    json_path: Path | None,
    resume: Path | None,
) -> int | None:
    """Run the benchmark NAME and print its figures with their targets; without NAME, list the benchmarks.

    The name `all` runs every benchmark, which takes a day. It needs --json and skips benchmarks that already have
    figures there. With --seed, it runs only benchmarks that take a seed.
    """
    from benchmarks import record

    if name is None:
        click.echo("\n".join(bench_names()))
        return None
    if name == ALL:
        return _bench_all(quick, scenarios, seed, no_rivals, json_path)
    if name not in bench_names():
        raise MillraceError("bench", name, ", ".join([*bench_names(), ALL]), "Choose one of these.")
    # checked first, because a benchmark can take hours
    if json_path and not json_path.parent.is_dir():
        raise MillraceError("--json", str(json_path), "a file in a folder that exists", "Create the folder first.")
    if json_path:
        record.read(json_path)
    measured = bench_module(name)
    choices = {**_choices(measured, name, scenarios, seed), **_rivals(measured, no_rivals)}
    when = _today_and_commit()
    if resume is not None:
        if "resume" not in inspect.signature(measured.run).parameters:
            raise MillraceError("--resume", str(resume), f"none: {name} measures everything at once", "Leave it out.")
        choices["resume"] = resume / "-".join((*when.split()[1:], "quick" if quick else "whole", str(seed or 0)))
    ensure_spark()
    found = measured.run(quick, **choices)
    records = [replace(r, measured=when, seed=seed or 0) for r in found]
    # written first: if the report fails, the figures are safe
    if json_path:
        record.write(records, json_path)
    _console().print(getattr(measured, "report", record.table)(records))
    return None


def _bench_all(quick: bool, scenarios: Sequence[str], seed: int | None, no_rivals: bool, json_path: Path | None) -> int:
    from benchmarks.record import read, table
    from millrace.local.cli.bench_all import Measurement, measure_all

    if json_path is None or scenarios:
        allowed = "all with --json FILE and without --scenario"
        raise MillraceError("bench", ALL, allowed, "Add --json FILE; the next run continues from its figures.")
    parts = []
    for name in bench_names():
        measured = bench_module(name)
        takes_seed = "seed" in inspect.signature(measured.run).parameters
        named = getattr(measured, "SCENARIOS", (None,))
        gives = named if isinstance(named, Mapping) else {}
        if takes_seed or not seed:
            parts += [Measurement(name, scenario, seed or 0, gives.get(scenario)) for scenario in named]
    console = _console()
    flags = [flag for flag, said in (("--quick", quick), ("--no-rivals", no_rivals)) if said]
    failed = measure_all(parts, json_path, flags, console)
    console.print(table(read(json_path)))
    return 1 if failed else 0


def _today_and_commit() -> str:
    """Return the day and the commit, as ``2013-01-05 3f2a91c``; only the day without Git."""
    argv = ["git", "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        commit = ""
    return f"{datetime.now(UTC):%Y-%m-%d} {commit}".strip()


def _console() -> Console:
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    return console


def _rivals(measured: ModuleType, no_rivals: bool) -> dict[str, bool]:
    """Return ``rivals=False`` if it was asked for and the benchmark supports it."""
    return {"rivals": False} if no_rivals and "rivals" in inspect.signature(measured.run).parameters else {}


def _choices(measured: ModuleType, name: str, scenarios: Sequence[str], seed: int | None) -> dict[str, object]:
    """Return the arguments for a benchmark's ``run``."""
    choices: dict[str, object] = {}
    if seed is not None:
        if "seed" not in inspect.signature(measured.run).parameters:
            raise MillraceError("--seed", seed, f"none: {name} uses no random numbers", "Leave it out.")
        choices["seed"] = seed
    if scenarios:
        known = getattr(measured, "SCENARIOS", ())
        for scenario in scenarios:
            if scenario not in known:
                allowed = ", ".join(known) or f"none: {name} has no scenarios"
                raise MillraceError("--scenario", scenario, allowed, "Choose one of these, or leave it out.")
        choices["scenarios"] = frozenset(scenarios)
    return choices
