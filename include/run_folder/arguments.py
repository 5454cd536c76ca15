"""The command line of ``jobs/run_script.py``: the reconciler writes it, the driver parses it, discovery finds it."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from include.model.errors import MillraceError

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
        slots: Cores, >= 1.
        epoch: Checkpoint epoch, >= 0.
        run_dir: Folder of records, locks and generations.
        lake: The lake's folder.
        period_s: Interval between two evaluations, seconds.
        ready_deadline_s: Time a driver has from its start to its gate, and from there to its first commit.
        stop_deadline_s: Time from TERM to a forced end; the last third of it is left for the script's own end.
        script: The user's script.
        args: The script's arguments, untouched.
        batch_deadline_s: Longest time in which a running batch may show no progress, seconds.
    """

    pipeline: str
    app: str
    generation: int
    version: int
    slots: int
    epoch: int
    run_dir: Path
    lake: Path
    period_s: float
    ready_deadline_s: float
    stop_deadline_s: float
    script: Path
    args: tuple[str, ...] = ()
    batch_deadline_s: float = 3600.0

    def argv(self) -> list[str]:
        """Return the arguments as they follow ``run_script.py``."""
        return [
            "--pipeline", self.pipeline,
            "--app", self.app,
            "--generation", str(self.generation),
            "--version", str(self.version),
            "--slots", str(self.slots),
            "--epoch", str(self.epoch),
            "--run-dir", str(self.run_dir),
            "--lake", str(self.lake),
            "--period", repr(self.period_s),
            "--ready-deadline", repr(self.ready_deadline_s),
            "--stop-deadline", repr(self.stop_deadline_s),
            "--batch-deadline", repr(self.batch_deadline_s),
            SEPARATOR, str(self.script), *self.args,
        ]  # fmt: skip


def parse(argv: Sequence[str]) -> DriverArguments:
    """Return what :meth:`DriverArguments.argv` wrote.

    Raises:
        MillraceError: If an option is missing, unknown or of the wrong type, or the script is missing.
    """
    own, user = _split(argv)
    options = _parser().parse_args(own)
    if not user:
        raise MillraceError(ENTRY_POINT, " ".join(argv), "OPTIONS -- SCRIPT ARG...", "Name a script after `--`.")
    return DriverArguments(**vars(options), script=Path(user[0]), args=tuple(user[1:]))


def recognise(command_line: Sequence[str]) -> DriverArguments | None:
    """Return the arguments of a driver's process, None for any other process's command line."""
    at = next((i for i, word in enumerate(command_line) if Path(word).name == ENTRY_POINT), None)
    if at is None:
        return None
    with contextlib.suppress(MillraceError):  # something of the same name that is none of ours
        return parse(command_line[at + 1 :])
    return None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise MillraceError(ENTRY_POINT, message, self.format_usage().strip(), "Mend the command line.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=ENTRY_POINT, add_help=False, allow_abbrev=False)
    for name in ("pipeline", "app"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("generation", "version", "slots"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--lake", type=Path, required=True)
    parser.add_argument("--period", dest="period_s", type=float, default=60.0)
    parser.add_argument("--ready-deadline", dest="ready_deadline_s", type=float, default=120.0)
    parser.add_argument("--stop-deadline", dest="stop_deadline_s", type=float, default=60.0)
    parser.add_argument("--batch-deadline", dest="batch_deadline_s", type=float, default=3600.0)
    return parser


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    at = list(argv).index(SEPARATOR) if SEPARATOR in argv else len(argv)
    return list(argv[:at]), list(argv[at + 1 :])
