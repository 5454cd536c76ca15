"""All commands by name; each is loaded only when it runs, so that help is quick."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import click

from include.model.errors import MillraceError


@dataclass(frozen=True)
class Entry:
    """Where a command is found.

    Args:
        module: Its module in ``include.local.cli``.
        help: One line for the list of commands.
        attribute: The click command in the module, the command's name with underscores by default.
    """

    module: str
    help: str
    attribute: str | None = None


ENTRIES = {
    "demo": Entry("demo", "Replay a day of flights and watch a real job adapt itself."),
    "test": Entry("testing", "Run all tests, quickest first.", "test"),
    "bench": Entry("bench", "Measure one part and print its figures."),
    "setup": Entry("stack", "Set up this folder and stop there."),
    "up": Entry("stack", "Start the local stack and wait until it is healthy."),
    "down": Entry("stack", "Stop the local stack."),
    "status": Entry("status", "Show the stack and the pipelines."),
    "logs": Entry("logs", "Show a component's log."),
    "pipelines": Entry("pipelines", "List the pipelines."),
    "trigger": Entry("pipelines", "Launch a pipeline or change what it runs with."),
    "pause": Entry("pipelines", "Stop adapting a pipeline; its job runs on."),
    "resume": Entry("pipelines", "Adapt a pipeline again."),
    "decisions": Entry("decisions", "Show what was decided and why."),
    "replay": Entry("replay", "Show what another tuner would have done."),
    "compose-env": Entry("compose", "Write secrets for the shared deployment."),
    "runner": Entry("runner", "Own the drivers of the shared deployment."),
}


class LazyCommands(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order in which a newcomer needs them.

        Args:
            ctx: Unused.
        """
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command.

        Args:
            ctx: Unused.
            cmd_name: Its name.

        Raises:
            MillraceError: There is no such command.
        """
        if cmd_name not in (known := self.list_commands(ctx)):
            raise MillraceError("command", cmd_name, ", ".join(known), "Run ./millrace --help.")
        entry = ENTRIES[cmd_name]
        module = importlib.import_module(f"include.local.cli.{entry.module}")
        command = getattr(module, entry.attribute or cmd_name.replace("-", "_"))
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}: {cmd_name} is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any.

        Args:
            ctx: Unused.
            formatter: Where to.
        """
        with formatter.section("Commands"):
            formatter.write_dl([(name, ENTRIES[name].help) for name in self.list_commands(ctx)])


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
def millrace() -> None:
    """Scale Spark Structured Streaming jobs up and down from Airflow.

    Begin with `./millrace demo`.
    """
