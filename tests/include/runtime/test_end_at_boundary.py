"""How a driver stops if Spark does not answer as expected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from millrace.runtime import stop


class Query:
    """A query that runs until it is stopped, between two triggers."""

    def __init__(self) -> None:
        self.stopped = False

    @property
    def _jsq(self) -> Any:
        thread = SimpleNamespace(isAlive=lambda: not self.stopped)
        return SimpleNamespace(streamingQuery=lambda: SimpleNamespace(queryExecutionThread=lambda: thread))

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        raise ValueError("zip() argument 2 is longer than argument 1")

    def stop(self) -> None:
        self.stopped = True


def test_driver_stops_if_it_cannot_tell_which_results_are_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stop, "_calls", lambda query: stop.PAUSING)
    monkeypatch.setattr(stop, "_terminate", lambda query: None)
    query = Query()
    assert stop.end_at_boundary([query], 60.0) and query.stopped
    assert "stops without waiting for the last results" in caplog.text and "longer than argument 1" in caplog.text
