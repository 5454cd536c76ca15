from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.record import Record
from benchmarks.tables import write_tables

GOOD = Record("stack", "start", "millrace", "healthy_s", 30.0, "s", 28.0, 31.0, 3, "<=45", True, "2013-01-05 3f2a91c")
BAD = Record("placement", "skew", "albic", "batch_time_vs_even", 0.99, "ratio", target="<=0.95", holds=False)
RIVAL = Record("placement", "skew", "even", "batch_time_s", 5.0, "s")
REASONS = {("placement", "skew", "batch_time_vs_even"): "Half of a batch is elsewhere."}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    better = replace(BAD, value=0.9, holds=True, seed=101)
    write_tables([better, BAD, RIVAL, GOOD], tmp_path / "benchmarks", REASONS)
    return tmp_path / "benchmarks"


def test_page_shows_methods_side_by_side_with_targets_and_other_seeds(folder: Path) -> None:
    page = (folder / "placement.html").read_text(encoding="utf-8")
    assert "<th>figure</th><th>albic</th><th>even</th>" in page
    ours = '<span class="missed">0.99</span><small>target &lt;=0.95</small><small>seed 101: 0.9</small>'
    assert f"<tr><th>batch_time_vs_even</th><td>{ours}</td><td></td></tr>" in page
    assert "<tr><th>batch_time_s</th><td></td><td>5 s</td></tr>" in page and "Measured: unknown" in page


def test_page_says_when_a_scenario_was_measured(folder: Path) -> None:
    assert "Measured: 2013-01-05 3f2a91c" in (folder / "stack.html").read_text(encoding="utf-8")


def test_csv_has_a_row_per_record_with_all_fields(folder: Path) -> None:
    with (folder / "placement.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["value"], row["seed"], row["target"]) for row in rows][:2] == [
        ("0.9", "101", "<=0.95"),
        ("0.99", "0", "<=0.95"),
    ]


def test_index_links_every_benchmark_and_explains_missed_targets(folder: Path) -> None:
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert 'href="placement.html"' in index and 'href="stack.csv"' in index
    assert "<td>Half of a batch is elsewhere.</td>" in index and "healthy_s" not in index
