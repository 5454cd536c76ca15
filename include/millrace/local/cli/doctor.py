"""The command doctor: check this installation and say how to fix what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.environment.home import Home
from millrace.local.cli.status import PipelineStatus, pipeline_statuses
from millrace.local.doctor import machine, pipelines, stack
from millrace.local.doctor.finding import Finding, Level, checked, of_error
from millrace.local.stack import lifecycle
from millrace.model.errors import MillraceError
from millrace.wiring import RUNNER_VARIABLE, airflow_is_elsewhere, control_tables, lake

MARKS = {Level.OK: ("✓", "green"), Level.WARNING: ("!", "yellow"), Level.PROBLEM: ("✗", "red")}
WIDTH = 120
"""Columns if the output is not a terminal."""
Groups = Mapping[str, Sequence[Finding]]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print every finding as JSON.")
def doctor(as_json: bool) -> int:
    """Check this installation and say how to fix what is wrong; exit code 1 if there is a problem."""
    groups = examine(Home.from_env())
    if as_json:
        click.echo(json.dumps({name: [asdict(f) for f in found] for name, found in groups.items()}, indent=2))
    else:
        _print(groups)
    return 1 if _count(groups, Level.PROBLEM) else 0


def examine(home: Home) -> Groups:
    """Run all checks and return their findings by group; change nothing."""
    statuses, unreadable = _statuses(home)
    wanted = [status.wanted for status in statuses if status.wanted.kept_running]
    return {
        "Machine": [
            checked("python", machine.python),
            checked("packages", machine.packages),
            checked("java", machine.java),
            checked("jars", machine.spark),
        ],
        "Home": [
            checked("disk", partial(machine.disk, home)),
            checked("lake", lambda: machine.lake(home, lake().location)),
            checked("clock", lambda: machine.clock(lake())),
        ],
        "Stack": [
            checked("stack", partial(stack.services, home, wanted)),
            checked("ports", partial(stack.ports, home, wanted)),
            checked("cluster", partial(stack.cluster, home, wanted)),
            # the drivers are processes of another container
            checked("runner", partial(stack.runner, home))
            if os.environ.get(RUNNER_VARIABLE)
            else checked("locks", partial(stack.locks, home)),
        ],
        "Pipelines": [*unreadable, *_pipelines(home, statuses)],
    }


def _statuses(home: Home) -> tuple[list[PipelineStatus], list[Finding]]:
    try:
        return pipeline_statuses(control_tables(), home.run / "drivers"), []
    except MillraceError as error:
        return [], [of_error("control", error)]


def _pipelines(home: Home, statuses: Sequence[PipelineStatus]) -> list[Finding]:
    from millrace.optimizers.registry import problems
    from millrace.pipelines.catalog import load_all

    specs, wrong = load_all()
    found = [*pipelines.specs(specs, wrong + problems(specs.values())), *pipelines.connectors(specs)]
    record = lifecycle.status(home)
    adapted = (record is not None and record.healthy) or airflow_is_elsewhere()
    for status in statuses:
        name = status.wanted.pipeline
        checks = [partial(pipelines.runs, status, home.logs / "drivers")]
        if status.wanted.kept_running:
            checks += [partial(pipelines.has_spec, status, specs)]
        if status.wanted.kept_running and status.problem is None:
            checks += [partial(pipelines.circuit, status, home.run / "drivers")]
            # a stack that is down is reported once
            if adapted and name in specs:
                checks += [partial(pipelines.evaluated, status, specs[name], control_tables().lake)]
        found += _told(name, [checked(name, check) for check in checks])
    return found


def _told(name: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return a pipeline's warnings and problems, or one line that all is well."""
    bad = [finding for finding in findings if finding.level is not Level.OK]
    return bad or [Finding(name, Level.OK, " ".join(finding.sentence for finding in findings))]


def _print(groups: Groups) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=2, justify="right")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for title, findings in groups.items():
        table.add_row("", Text(title, style="bold"))
        for finding in findings:
            mark, colour = MARKS[finding.level]
            table.add_row(Text(mark, style=colour), Text(finding.name), Text(finding.sentence))
            if finding.remedy:
                table.add_row("", "", Text(f"→ {finding.remedy}", style=colour))
    console.print(table, highlight=False)
    problems, warnings = _count(groups, Level.PROBLEM), _count(groups, Level.WARNING)
    told = " and ".join(
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in ((problems, "problem"), (warnings, "warning"))
        if number
    )
    console.print(f"\n{told or 'All is well'}.", highlight=False)


def _count(groups: Groups, level: Level) -> int:
    return sum(finding.level is level for findings in groups.values() for finding in findings)
