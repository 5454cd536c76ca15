"""Runs the command line and turns every error into what a person can use."""

from __future__ import annotations

import os
import sys
import traceback
from datetime import UTC, datetime

import click

from include.local.cli.commands import millrace
from include.local.stack.home import Home
from include.model.errors import MillraceError

BAD_INPUT = 2
UNEXPECTED = 1
INTERRUPTED = 130


def main(args: list[str] | None = None) -> int:
    """Run one command.

    Args:
        args: The command line's arguments, sys.argv's by default.

    Returns:
        0, what the command says, 2 for bad input, 1 for what nobody foresaw, 130 after Ctrl-C.
    """
    try:
        code = millrace.main(args=args, prog_name="millrace", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except MillraceError as error:
        _red(str(error))
        return BAD_INPUT
    except click.ClickException as error:
        error.show()
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        _red("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # the reader, such as head, has seen enough; python would complain once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        _red(f"unexpected {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}{_kept(error)}")
        return UNEXPECTED


def _red(text: str) -> None:
    click.secho(f"millrace: {text}", fg="red", err=True)


def _kept(error: Exception) -> str:
    """Write the traceback to a log and say where it is."""
    log = Home.from_env().logs / "errors.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            out.write(f"\n{datetime.now(UTC).isoformat()} {' '.join(sys.argv[1:])}\n")
            traceback.print_exception(error, file=out)
    except OSError:
        return "".join(["\n", *traceback.format_exception(error)])
    return f"; the traceback is in {log}"


if __name__ == "__main__":
    sys.exit(main())
