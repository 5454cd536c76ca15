"""The command line: all commands by name, each loaded only when it runs, and every error as what a person can use."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from millrace.local.stack.home import Home
from millrace.model.errors import MillraceError
from millrace.model.failure import reason
from millrace.places import IN_CHECKOUT


@dataclass(frozen=True)
class Entry:
    """Where a command is found.

    Attributes:
        module: Its module in ``millrace.local.cli``, which has the click command under its name with underscores.
        help: One line for the list of commands.
    """

    module: str
    help: str


ENTRIES = {
    "demo": Entry("stack", "Replay a day of flights and watch a real job adapt itself."),
    "test": Entry("run_tests", "Run the tests, quickest first."),
    "bench": Entry("bench", "Measure one part and print its figures."),
    "setup": Entry("stack", "Set up this folder and stop there."),
    "up": Entry("stack", "Start the local stack and wait until it is healthy."),
    "down": Entry("stack", "Stop the local stack."),
    "status": Entry("status", "Show the stack and the pipelines."),
    "doctor": Entry("doctor", "Say what is wrong with this installation, and what to do about it."),
    "logs": Entry("stack", "Show a component's log."),
    "pipelines": Entry("pipelines", "List the pipelines."),
    "trigger": Entry("pipelines", "Launch a pipeline or change what it runs with."),
    "pause": Entry("pipelines", "Stop adapting a pipeline; its job runs on."),
    "resume": Entry("pipelines", "Adapt a pipeline again."),
    "detach": Entry("pipelines", "Leave a pipeline's job running without Millrace."),
    "attach": Entry("pipelines", "Take a detached job back as it runs."),
    "decisions": Entry("decisions", "Show what was decided and why."),
    "deployments": Entry("deployments", "Show each version of what a pipeline runs, or the spark-submit of one."),
    "placement": Entry("placement", "Show which executor runs which state partitions, and what would be better."),
    "replay": Entry("replay", "Show what another tuner would have done."),
    "docs": Entry("docs", "Build the documentation as a site."),
    "compose-env": Entry("compose_env", "Write secrets for the shared deployment."),
    "runner": Entry("runner", "Own the drivers of the shared deployment."),
}
OF_A_CHECKOUT = frozenset({"demo", "test", "bench", "docs", "compose-env"})
"""They need what an installed package does not bring."""


class LazyCommands(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order in which a newcomer needs them."""
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command.

        Raises:
            MillraceError: There is no such command, or it needs a checkout.
        """
        if cmd_name not in ENTRIES:
            raise MillraceError("command", cmd_name, ", ".join(ENTRIES), "Run ./millrace --help.")
        if cmd_name in OF_A_CHECKOUT and not IN_CHECKOUT:
            remedy = f"Clone the repository and run ./millrace {cmd_name} there."
            raise MillraceError("command", cmd_name, "a command of a checkout, and this one was installed", remedy)
        entry = ENTRIES[cmd_name]
        module = importlib.import_module(f"millrace.local.cli.{entry.module}")
        command = getattr(module, cmd_name.replace("-", "_"))
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}: {cmd_name} is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, ENTRIES[name].help) for name in ENTRIES])


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
def millrace() -> None:
    """Scale Spark Structured Streaming jobs up and down from Airflow.

    Begin with `./millrace demo`.
    """


BAD_INPUT = 2
UNEXPECTED = 1
INTERRUPTED = 130


def main(args: list[str] | None = None) -> int:
    """Run one command.

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
        _red(f"unexpected {reason(error)}{_logged(error)}")
        return UNEXPECTED


def _red(text: str) -> None:
    click.secho(f"millrace: {text}", fg="red", err=True)


def _logged(error: Exception) -> str:
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
