from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.conttune import published
from benchmarks.conttune.bench import run
from benchmarks.conttune.cases import Case, cases, left_out


def test_workload_when_the_file_is_there_then_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_DATA", str(tmp_path))
    (tmp_path / published.WORKLOADS).write_text(json.dumps({"etl": [1, 2.5], "monitoring": [3]}))
    assert published.workload("etl") == [1.0, 2.5]


def test_abilities_when_the_file_is_there_then_levels_rise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_DATA", str(tmp_path))
    (tmp_path / published.ABILITIES).write_text(json.dumps({"observations": {"10": [5.0], "2": [1.0, 3.0]}}))
    assert published.abilities() == {2: [1.0, 3.0], 10: [5.0]}
    assert list(published.abilities() or ()) == [2, 10]


def test_cases_when_files_are_missing_then_recorded_scenarios_are_left_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_DATA", str(tmp_path))
    kept, reasons = left_out(cases(quick=True))
    assert not {"etl", "etl_mb", "monitoring", "monitoring_mb"} & {case.scenario for case in kept}
    assert [reason.split(":")[0] for reason in reasons] == ["etl", "monitoring", "etl_mb", "monitoring_mb"]
    assert all(published.WORKLOADS in reason for reason in reasons)


def test_run_when_files_are_missing_then_names_what_is_left_out_and_measures_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILLRACE_DATA", str(tmp_path))
    wanted = (Case("etl", ("oracle",), 1), Case("paper_mb", ("oracle",), 1))
    monkeypatch.setattr("benchmarks.conttune.bench.cases", lambda quick: wanted)
    monkeypatch.setattr("benchmarks.conttune.bench.processors", lambda: 0)
    found = run(quick=True)
    told = capsys.readouterr().err
    assert "left out: etl: no conttune_real_workloads.json" in told and "left out: loo: no" in told
    assert {r.scenario for r in found} == {"paper_mb", "paper_warm_mb", "ds2_parity"}
