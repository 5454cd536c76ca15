"""The command logs."""

from __future__ import annotations

import time
from pathlib import Path

import click

from include.local.stack.home import Home
from include.local.stack.lifecycle import log_files, tail
from include.model.errors import MillraceError

POLL_S = 0.3


@click.command()
@click.argument("name")
@click.option("-n", "lines", type=click.IntRange(min=0), default=50, show_default=True, help="Lines from the end.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added, until Ctrl-C.")
def logs(name: str, lines: int, follow: bool) -> None:
    """Show the end of the log NAME: a service of the stack, or a driver."""
    found = log_files(Home.from_env())
    if name not in found:
        allowed = ", ".join(found) or "none yet"
        raise MillraceError("log", name, allowed, "Name one of these; ./millrace up makes the stack's.")
    for line in tail(found[name], lines):
        click.echo(line)
    if follow:
        _follow(found[name])


def _follow(path: Path) -> None:
    with path.open("rb") as log:
        log.seek(0, 2)
        while True:
            if added := log.read():
                click.echo(added.decode(errors="replace"), nl=False)
            else:
                time.sleep(POLL_S)
