"""The command docs: build the documentation site."""

from __future__ import annotations

import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import click

from millrace.environment.jars import VENV
from millrace.local.stack.loopback import HOST
from millrace.local.stack.python_env import run_with
from millrace.model.errors import MillraceError
from millrace.places import REPO

SITE = REPO / "var" / "docs"
LOCK = REPO / "docs" / "requirements.lock"
RECORDS = REPO / "docs" / "benchmarks"


@click.command()
@click.option("--serve", is_flag=True, help="Serve it on 127.0.0.1 until Ctrl-C; its search needs a server.")
def docs(serve: bool) -> None:
    """Build the documentation site in var/docs, with all figures of the benchmarks.

    The first call downloads the tools pinned in docs/requirements.lock.
    """
    from benchmarks.record import read
    from benchmarks.tables import write_tables

    command = [*run_with(VENV, LOCK), "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    if built.returncode:
        click.echo(built.stderr.partition("Traceback")[0], err=True)
        remedy = "Fix the errors above; the first call needs a package index."
        raise MillraceError("docs", f"exit code {built.returncode}", "a build without errors", remedy)
    write_tables(read(RECORDS), SITE / RECORDS.name)
    click.echo(f"Open {SITE / 'index.html'}")
    if serve:
        with ThreadingHTTPServer((HOST, 0), partial(SimpleHTTPRequestHandler, directory=str(SITE))) as server:
            click.echo(f"or http://{HOST}:{server.server_address[1]}/, until Ctrl-C")
            server.serve_forever()
