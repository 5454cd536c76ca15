"""Which streams run with which methods, without running them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.elastic import bench
from benchmarks.elastic.capacity import BatchTime
from benchmarks.elastic.contest import Contest
from benchmarks.elastic.methods import RIVALS, Method
from benchmarks.elastic.runs import Run
from benchmarks.elastic.streams import Stream


@dataclass
class Planned:
    """Stands in for a contest and records what it was asked to run."""

    streams: list[Stream] = field(default_factory=list)
    methods: list[list[str]] = field(default_factory=list)

    def batch_times(self, wait_ms: float) -> Mapping[int, BatchTime]:
        return {slots: BatchTime(1.5, 0.06 / slots if wait_ms else 0.01) for slots in (2, 4, 6, 8)}

    def run(self, stream: Stream, methods: Sequence[Method], runs: dict[str, Run]) -> None:
        self.streams.append(stream)
        self.methods.append([method.name for method in methods])


def planned(name: str, seed: int = 0) -> Planned:
    found, runs = Planned(), dict[Stream, dict[str, Any]]()
    bench._run_stream(cast(Contest, found), name, bench.WHOLE, seed, runs)
    return found


@pytest.mark.parametrize("name", [name for name in bench.STREAMS if name != "taxis"])
def test_stream_runs_with_all_rivals_ours_and_fixed_sizes(name: str) -> None:
    found = planned(name)
    assert [len(one.counts) for one in found.streams] == [bench.STREAMS[name]]
    methods = found.methods[0]
    assert {"live", *(rival.name for rival in RIVALS)} < set(methods)
    assert any(method.startswith("fixed_") for method in methods)


def test_seed_changes_the_order_of_the_methods_and_the_walk() -> None:
    a, b = planned("walk", 1), planned("walk", 2)
    assert sorted(a.methods[0])[:1] == sorted(b.methods[0])[:1] and a.methods != b.methods
    assert a.streams[0].counts != b.streams[0].counts


def test_recorded_day_is_skipped_if_its_trace_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_DATA", str(tmp_path))
    assert planned("taxis").streams == []
