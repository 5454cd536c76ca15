"""The command line: all commands by name, each imported only when it runs, and errors as readable messages."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from millrace.environment.home import Home
from millrace.model.errors import Conflict, MillraceError
from millrace.model.failure import reason
from millrace.places import IN_CHECKOUT


@dataclass(frozen=True)
class Entry:
    """Where to find a command.

    Attributes:
        module: Its module in ``millrace.local.cli``; the click command there is named like it, with underscores.
        help: One line for the list of commands.
    """

    module: str
    help: str


ENTRIES = {
    "demo": Entry("stack", "Replay a night of flights and watch a real job scale down and up."),
    "test": Entry("run_tests", "Run the tests, quickest first."),
    "bench": Entry("bench", "Measure one part and print its figures."),
    "setup": Entry("stack", "Install packages, jars and Spark without starting anything."),
    "up": Entry("stack", "Start the local stack and wait until it is healthy."),
    "down": Entry("stack", "Stop the local stack."),
    "status": Entry("status", "Show the stack and the pipelines."),
    "doctor": Entry("doctor", "Check this installation and say how to fix what is wrong."),
    "logs": Entry("stack", "Show a component's log."),
    "pipelines": Entry("pipelines", "List the pipelines."),
    "trigger": Entry("pipelines", "Launch, stop, resize, evaluate or profile a pipeline."),
    "pause": Entry("pipelines", "Stop adapting a pipeline; its job keeps running."),
    "resume": Entry("pipelines", "Adapt a pipeline again."),
    "detach": Entry("pipelines", "Leave a pipeline's job running, unmanaged."),
    "attach": Entry("pipelines", "Manage a detached job again, without a restart."),
    "decisions": Entry("decisions", "Show the decisions and their reasons."),
    "deployments": Entry("deployments", "Show a pipeline's Deployments, or the spark-submit command of one."),
    "placement": Entry("placement", "Show which executor runs which state partitions, and the best placement."),
    "fleet": Entry("fleet", "Show which node of a fleet runs which stream."),
    "replay": Entry("replay", "Show what another tuner would have done."),
    "docs": Entry("docs", "Build the documentation site."),
    "compose-env": Entry("compose_env", "Write secrets for the shared deployment."),
    "runner": Entry("runner", "Start and stop the drivers of the shared deployment."),
}
OF_A_CHECKOUT = frozenset({"demo", "test", "bench", "docs", "compose-env"})
"""They need files that an installed package does not contain."""


class LazyCommands(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order in which a new user needs them."""
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command.

        Raises:
            MillraceError: The command does not exist, or it needs a checkout.
        """
        if cmd_name not in ENTRIES:
            raise MillraceError("command", cmd_name, ", ".join(ENTRIES), "Run ./millrace --help.")
        if cmd_name in OF_A_CHECKOUT and not IN_CHECKOUT:
            remedy = f"Clone the repository and run ./millrace {cmd_name} there."
            raise MillraceError(
                "command", cmd_name, "a command of an installed package; this one needs a checkout", remedy
            )
        entry = ENTRIES[cmd_name]
        module = importlib.import_module(f"millrace.local.cli.{entry.module}")
        command = getattr(module, cmd_name.replace("-", "_"))
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}: {cmd_name} is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, ENTRIES[name].help) for name in ENTRIES])


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
def millrace() -> None:
    """Scale Spark Structured Streaming jobs up and down from Airflow.

    Start with `./millrace demo`.
    """


BAD_INPUT = 2
UNEXPECTED = 1
INTERRUPTED = 130


def main(args: list[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 or the command's own code, 2 for bad input or no permission, 1 for an unexpected error or if other changes
        came first, 130 after Ctrl-C.
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
        # the reader, such as head, has closed the pipe; without this, Python would complain again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Conflict as error:
        _red(str(error))
        return UNEXPECTED
    except PermissionError as error:  # such as in a home that sudo made
        remedy = "Run the command as its owner, or set MILLRACE_HOME to a folder of your own."
        _red(f"{error.filename or error}: permission denied. {remedy}")
        return BAD_INPUT
    except Exception as error:
        _red(f"unexpected {reason(error)}{_logged(error)}")
        return UNEXPECTED


def _red(text: str) -> None:
    click.secho(f"millrace: {text}", fg="red", err=True)


def _logged(error: Exception) -> str:
    """Write the traceback to a log and return the path of the log as text."""
    log = Home.from_env().logs / "errors.log"
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            out.write(f"\n{datetime.now(UTC).isoformat()} {' '.join(sys.argv[1:])}\n")
            traceback.print_exception(error, file=out)
    except OSError:
        return "".join(["\n", *traceback.format_exception(error)])
    return f"; the traceback is in {log}"


if __name__ == "__main__":
    sys.exit(main())
