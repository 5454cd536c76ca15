"""What a replay reads of a pipeline's past, and of the other pipelines."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.lake import deployments
from millrace.model.codec import to_json
from millrace.reporting.recording import NewestOthers, read_recording
from tests.include.control.recorded_run import PERIOD_S, Steady, launched
from tests.include.control.world import NAME, NOON


def test_versions_outside_the_evaluations_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), arrivals=[300] * 3)
    made = {1: timedelta(days=-3), 2: timedelta(days=-2), 3: timedelta(seconds=1.5 * PERIOD_S), 4: timedelta(days=1)}
    other = replace(run.spec.first_deployment(), pipeline="other")
    run.lake.append(
        "control/deployments",
        [
            {"pipeline": "other", "time": NOON + after, "version": v, "content": to_json(replace(other, version=v))}
            for v, after in made.items()
        ],
    )
    times = [decision.time for decision in run.day()]
    parse, read = deployments.from_json, list[str]()
    monkeypatch.setattr(deployments, "from_json", lambda kind, text: read.append(text) or parse(kind, text))
    recording = read_recording(NAME, run.tables, None, NOON + timedelta(days=2))
    assert list(recording.deployments) == [1] and [d.version for _, d in recording.others] == [2, 3]
    assert len(read) == 3
    newest = NewestOthers(recording.others)
    assert [[d.version for d in newest.at(time)] for time in times] == [[2], [3], [3]]
