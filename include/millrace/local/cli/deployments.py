"""The command deployments: show a pipeline's Deployments, and the spark-submit command of one."""

from __future__ import annotations

from datetime import datetime

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.model.deployment import Deployment
from millrace.model.errors import MillraceError


@click.command()
@click.argument("pipeline")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show at most this many, newest kept."
)
@click.option("--submit", "version", type=click.IntRange(min=1), help="Print the spark-submit command of this version.")
def deployments(pipeline: str, limit: int, version: int | None) -> None:
    """Show the Deployments (desired states) of PIPELINE, newest last."""
    from millrace.pipelines.catalog import find
    from millrace.wiring import control_tables, own_reconciler

    tables = control_tables()
    if version is not None:
        deployment = tables.deployments.get(pipeline, version)
        if deployment is None:
            remedy = f"./millrace deployments {pipeline} lists them."
            raise MillraceError("--submit", version, f"a version of {pipeline}", remedy)
        if deployment.is_external:
            remedy = "Millrace does not start its driver; submit it where you always do, see docs/attach.md."
            raise MillraceError("--submit", version, "a pipeline whose driver Millrace starts", remedy)
        for command in own_reconciler(find(pipeline), tables).commands(deployment):
            click.echo(command)
        return
    versions = tables.deployments.versions(pipeline, limit)
    if not versions:
        find(pipeline)  # raises if the name is wrong
        click.echo(f"{pipeline} was never launched. Launch it: ./millrace trigger {pipeline}")
    else:
        Console().print(_table(versions), highlight=False)


def _table(versions: list[tuple[datetime, Deployment]]) -> Table:
    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("version", "time (UTC)", "slots", "by"):
        rows.add_column(name, no_wrap=True, justify="right" if name in ("version", "slots") else "left")
    rows.add_column("why", overflow="fold", ratio=1)
    for time, deployment in reversed(versions):
        slots = str(deployment.slots) if deployment.running else deployment.state
        cells = (str(deployment.version), f"{time:%m-%d %H:%M:%S}", slots, deployment.author, deployment.reason)
        rows.add_row(*map(Text, cells))
    return rows
