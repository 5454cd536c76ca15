"""A script that keeps totals of the numbers in JSON files, and a load that rises and falls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.adapting import Adapting, adapting
from tests.jobs.driving import SCRIPTS, until

WAIT_S = 0.02
"""What the script waits a row: a slot can process 50 rows/s."""
LOW, HIGH = 30.0, 130.0
"""Rows per second: two slots suffice for the one, and are too few for the other. More would pile up for minutes."""
EMBEDDED: Mapping[str, object] = MappingProxyType({"master": "embedded"})
YAML = """\
name: totals
script: {script}
args: [{folder}/in, {folder}/totals.json, {folder}/checkpoint, "{wait_s}"]
submit: {submit}
slots: {{min: 2, max: 8, start: 2}}
executor: {{cores: 2, memory_mb: 512}}
objective: {{target_utilisation: 0.75, max_lag_s: 40}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
tuner: {{options: {{change_s: 0}}}}
ready_deadline_s: 600
"""


def spec_text(folder: Path, submit: Mapping[str, object] = EMBEDDED) -> str:
    """Return the pipeline's YAML.

    Args:
        folder: The folder of its input, checkpoint and results.
        submit: The spec's ``submit``.
    """
    how = json.dumps(dict(submit))
    return YAML.format(script=SCRIPTS / "totals.py", folder=folder, wait_s=WAIT_S, submit=how)


def total(results: Path) -> int:
    """Return the number of rows that the results contain."""
    return sum(rows for rows, _ in json.loads(results.read_text()).values()) if results.exists() else 0


def expected_totals(rows: int) -> dict[str, list[int]]:
    """Return the expected count and sum by key of the numbers below ``rows``."""
    return {str(key): [len(range(key, rows, 7)), sum(range(key, rows, 7))] for key in range(7)}


def has_grown(pipeline: Adapting) -> bool:
    return pipeline.app().slots > 2


def follow_load(
    folder: Path,
    submit: Mapping[str, object] = EMBEDDED,
    high: float = HIGH,
    risen: Callable[[Adapting], bool] = has_grown,
) -> Adapting:
    """Run the pipeline while its load rises and falls, until it is as small as allowed; no row may be lost.

    Args:
        folder: The folder of its input, checkpoint and results.
        submit: The spec's ``submit``.
        high: The load that it must follow, rows per second.
        risen: The condition that it must reach before the load falls.
    """
    results = folder / "totals.json"
    with ExitStack() as feed:
        arrivals = feed.enter_context(arriving(files(folder / "in", "json"), LOW))
        with adapting(folder / "totals.yaml", spec_text(folder, submit)) as pipeline:
            pipeline.until(pipeline.knows_its_ability)
            arrivals.rows_per_s = high
            pipeline.until(lambda: risen(pipeline))
            arrivals.rows_per_s = LOW
            pipeline.until(lambda: pipeline.app().slots == 2)
            feed.close()
            rows = arrivals.rows[-1]
            until(lambda: total(results) == rows, f"{rows} rows in the results")
    assert json.loads(results.read_text()) == expected_totals(rows)
    return pipeline
