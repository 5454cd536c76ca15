"""The command line of ``jobs/run_script.py``: the reconciler writes it, the driver parses it, discovery finds it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from millrace.model.codec import from_plain
from millrace.model.errors import MillraceError

ENTRY_POINT = "run_script.py"
SEPARATOR = "--"


@dataclass(frozen=True)
class DriverArguments:
    """The arguments of a driver.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app inside the pipeline.
        generation: Start number of the driver, >= 1.
        version: The Deployment version it runs, >= 1.
        slots: Number of cores, >= 1.
        epoch: Checkpoint epoch, >= 0.
        run_dir: Folder of records, locks and generations.
        lake: The lake's folder or URI.
        period_s: Interval between two evaluations, seconds.
        ready_deadline_s: Longest time in which a driver that is not ready may show no progress, seconds.
        stop_deadline_s: Time from TERM to a forced end, seconds. The running batch is cancelled after 60 % of it, and a
            script that does not end is left after 85 %.
        script: The user's script.
        args: The script's arguments, untouched.
        batch_deadline_s: Longest time in which a running batch may show no progress, seconds.
        batch_limits: Limits of the sources' batches that Millrace raises, as ``maxFilesPerTrigger=64`` with commas in
            between; empty for none.
    """

    pipeline: str
    app: str
    generation: int
    version: int
    slots: int
    epoch: int
    run_dir: Path
    lake: str
    period_s: float
    ready_deadline_s: float
    stop_deadline_s: float
    script: Path
    args: tuple[str, ...] = ()
    batch_deadline_s: float = 3600.0
    batch_limits: str = ""

    @property
    def raised_limits(self) -> dict[str, int]:
        """Values of :attr:`batch_limits` by option."""
        pairs = (pair.partition("=") for pair in self.batch_limits.split(",") if pair)
        return {option: int(value) for option, _, value in pairs}

    def argv(self) -> list[str]:
        """Return the arguments as they follow ``run_script.py``."""
        values = ((option, str(getattr(self, name))) for option, name in OPTIONS.items())
        options = [word for option, value in values if value for word in (option, value)]
        return [*options, SEPARATOR, str(self.script), *self.args]


OPTIONS = {
    f"--{field.name.removesuffix('_s').replace('_', '-')}": field.name
    for field in fields(DriverArguments)
    if field.name not in ("script", "args")
}
"""Fields of :class:`DriverArguments` by option: ``--ready-deadline`` for ``ready_deadline_s``."""


def parse(argv: Sequence[str]) -> DriverArguments:
    """Return what :meth:`DriverArguments.argv` wrote.

    Raises:
        MillraceError: If an option is missing, unknown or of the wrong type, or the script is missing.
    """
    at = list(argv).index(SEPARATOR) if SEPARATOR in argv else len(argv)
    own, user = argv[:at], argv[at + 1 :]
    unknown = [option for option in own[::2] if option not in OPTIONS]
    if unknown or len(own) % 2:
        usage = " ".join(f"{option} {name.upper()}" for option, name in OPTIONS.items())
        raise MillraceError(ENTRY_POINT, " ".join(unknown or own), usage, "Fix the command line.")
    if not user:
        raise MillraceError(ENTRY_POINT, " ".join(argv), "OPTIONS -- SCRIPT ARG...", "Add a script after `--`.")
    values = {OPTIONS[option]: value for option, value in zip(own[::2], own[1::2], strict=True)}
    try:
        options = from_plain(DriverArguments, {**values, "script": Path(user[0])})
    except ValueError as error:
        raise MillraceError(ENTRY_POINT, " ".join(own), str(error), "Fix the command line.") from None
    return replace(options, args=tuple(user[1:]))


def recognise(command_line: Sequence[str]) -> DriverArguments | None:
    """Return the arguments of a driver's process; None for the command line of any other process."""
    at = next((i for i, word in enumerate(command_line) if Path(word).name == ENTRY_POINT), None)
    if at is None:
        return None
    with contextlib.suppress(MillraceError):  # another program with the same name
        return parse(command_line[at + 1 :])
    return None
