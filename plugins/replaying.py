"""A replay as a task runs it: parameters of a form in, what came of it out, a run in MLflow beside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from include.model.spec import PipelineSpec


def replayed(
    spec: PipelineSpec, tuner: str, options: Mapping[str, Any], since: str | None, until: str | None
) -> dict[str, Any]:
    """Replay a pipeline and return its summary, its figures and the run in MLflow; nothing else is written.

    Args:
        spec: The pipeline.
        tuner: Registry name of the tuner.
        options: Its options.
        since: Time of the first look, or how long ago; None for a day before the last one.
        until: Time of the last look, or how long ago; None for now.

    Raises:
        MillraceError: If an option is unknown, a time malformed, or nothing was recorded.
    """
    from datetime import UTC, datetime

    from include import wiring
    from include.control.timestamps import moment
    from include.reporting.replay_report import log_replay, summary
    from optimizers.registry import create

    now = datetime.now(UTC)
    begin = moment(since, now, "since") if since else None
    end = moment(until, now, "until") if until else now
    made = wiring.replay(spec, wiring.lake(), tuner, options, create, begin, end)
    run_id = log_replay(os.environ.get("MLFLOW_TRACKING_URI"), made)
    return {"summary": summary(made), "figures": dict(made.figures), "mlflow_run_id": run_id}
