"""Flink's own autoscaler as an optimizer, so the benchmark can drive it like any tuner.

It is the real ``org.apache.flink:flink-autoscaler``, in a separate JVM; only its inputs and their timing are ours. It
cannot tune a live pipeline and is not in the registry: Flink keeps its history to itself, so Memory contains only the
name of a session in that JVM, and a replay from a stored Memory is impossible.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.flink import installation
from benchmarks.flink.job import vertices
from benchmarks.flink.jvm import Jvm
from benchmarks.flink.settings import FlinkSettings
from benchmarks.flink.unavailable import Unavailable
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import PARALLELISM, Change, Deployment
from millrace.model.signals import AppSignals, Signals

NAME = "flink"
SESSIONS = "sessions"

_numbers = itertools.count()


@dataclass(frozen=True)
class Availability:
    """Whether the peer can run on this machine; true if it can.

    Attributes:
        reason: Why not, one line; empty if it can.
    """

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


class FlinkAutoscaler:
    """Flink's ``JobAutoScalerImpl``, with one session per app and run.

    Each call is one collection of metrics by Flink, at the end of the period. Flink sees sources but does not scale
    them, because a Deployment does not size them. It is a ``millrace.model.protocols.Optimizer``.

    Args:
        settings: Its settings.
    """

    def __init__(self, settings: FlinkSettings | None = None) -> None:
        self.settings = settings or FlinkSettings()

    @staticmethod
    def available() -> Availability:
        """Return whether it can run here; the first call prepares it (10 to 60 s, once)."""
        try:
            installation.command()
        except Unavailable as reason:
            return Availability(str(reason))
        return Availability()

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Show a period to Flink and return its decision.

        Args:
            signals: The period; its end must be later than the last one's.
            current: The running Deployment. If it differs from the last one, the job restarted in between.
            memory: Empty for a new run; then the last call's result.

        Raises:
            MillraceError: The JVM failed, or ``memory`` names a session that it does not have.
            Unavailable: It cannot run on this machine.
        """
        sessions = dict(memory.get(SESSIONS, {}))
        changes: list[Change] = []
        asked = False
        for app in signals.apps:
            deployed = current.apps.get(app.app)
            if deployed is None or not deployed.parallelism or not app.operators:
                continue
            if app.app not in sessions:
                sessions[app.app] = self._open()
            changes += self._look(sessions[app.app], signals, app, deployed.parallelism)
            asked = True
        return _proposal(changes, asked), {SESSIONS: sessions}

    def _open(self) -> str:
        session = f"{os.getpid()}-{next(_numbers)}"
        Jvm.shared().ask(
            {
                "op": "open",
                "session": session,
                "options": dict(self.settings.options()),
                "downtime_ms": round(self.settings.downtime_s * 1000),
                "window_looks": self.settings.window_looks,
            }
        )
        return session

    def _look(self, session: str, signals: Signals, app: AppSignals, parallelism: Mapping[str, int]) -> list[Change]:
        answer = Jvm.shared().ask(
            {
                "op": "look",
                "session": session,
                "time_ms": round(signals.until.timestamp() * 1000),
                "period_ms": round(signals.period_s * 1000),
                "min_parallelism": signals.bounds.min_slots,
                "max_parallelism": signals.bounds.max_slots,
                "vertices": vertices(app, parallelism),
            }
        )
        # Flink does not know executors: its result is rounded up to whole executors
        wanted = {operator: signals.bounds.level(p) for operator, p in answer["parallelism"].items()}
        return [
            Change(app.app, PARALLELISM, before, wanted[operator], operator)
            for operator, before in parallelism.items()
            if wanted.get(operator, before) != before
        ]


def _proposal(changes: list[Change], asked: bool) -> Proposal:
    if changes:
        wants = ", ".join(f"{c.operator} {c.before} -> {c.value}" for c in changes)
        return Proposal(NAME, tuple(changes), "flink_scales", f"Flink's autoscaler wants {wants}.")
    if asked:
        return Proposal(NAME, (), "flink_stays", "Flink's autoscaler wants no change.")
    return Proposal(NAME, (), "not_pipelined", "No app has measured operators with a p of their own.")
