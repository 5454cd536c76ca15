"""Which executors died lately: of memory, or of anything else since the last change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from millrace.control.batch_history import HISTORY, HISTORY_BATCHES
from millrace.lake.executor_runs import executor_runs
from millrace.lake.pace import at_least
from millrace.lake.store import Lake
from millrace.model.decision import Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.spec import PipelineSpec


@dataclass(frozen=True)
class Deaths:
    """Executors that died of memory, and of anything else."""

    of_memory: int = 0
    others: int = 0


def executor_deaths(
    spec: PipelineSpec,
    lake: Lake,
    current: Deployment,
    changes: Sequence[Reconfiguration],
    now: datetime,
    trigger_s: float = 0.0,
) -> Deaths:
    """Return how many executors of the present size recently died of memory, and how many otherwise since a change."""
    size = current.apps[spec.app].executor if spec.app in current.apps else None
    if size is None:
        return Deaths()
    since = now - at_least(HISTORY, HISTORY_BATCHES, trigger_s)
    runs = [run for run in executor_runs(lake, spec.name, since) if run.app == spec.app]
    # one in Spark's recovery mode has the same memory for fewer cores
    of_memory = [
        run for run in runs if run.died_of_memory and run.cores <= size.cores and run.memory_mb == size.memory_mb
    ]
    last = next((change for change in changes if change.from_version != change.to_version), None)
    begin = None if last is None else last.ended
    others = [
        run
        for run in runs
        if run.died and not run.died_of_memory and run.ended is not None and begin is not None and run.ended > begin
    ]
    return Deaths(len(of_memory), len(others))
