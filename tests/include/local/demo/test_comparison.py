"""The batch computation, and a check that detects every kind of error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from millrace.lake.source_tables import SourceTable, query
from millrace.local.demo.comparison import batch_delays, compare, settled
from millrace.local.feeds.replay_clock import SCHEMA, Clock, Replay
from tests.flights import flights


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flights") / "table"
    replay = Replay(Clock(fold_days=2, day_s=4, start_hour=5, days=0.5), flights())
    table = SourceTable(path, SCHEMA, "flights")
    for number, rows in enumerate(replay):
        if rows.num_rows:
            table.append(rows, 2, "feed", number)
    return path


@pytest.fixture
def write(source: Path, tmp_path: Path) -> Callable[[Callable[[pd.DataFrame], pd.DataFrame]], Path]:
    """Write results as the job would, after a change."""

    def written(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Path:
        expected, _ = batch_delays(query("select * from f", f=source).to_pandas())
        frame = change(expected.assign(row_ids=[list(ids) for ids in expected["row_ids"]]))
        rows = pa.Table.from_pandas(frame, preserve_index=False)
        SourceTable(tmp_path / "results", rows.schema, "delays").append(rows, 3, "sink", 0)
        return tmp_path / "results"

    return written


def test_batch_delays_contain_every_flight_except_the_closing_one_once(source: Path) -> None:
    rows = query("select * from f", f=source).to_pandas()
    expected, closed = batch_delays(rows)
    ids = sorted(i for group in expected["row_ids"] for i in group)
    assert ids == list(range(1, len(rows)))
    assert len(closed) == len(rows) - 1
    assert expected["cancelled"].sum() == (closed["dep_delay"] == "NA").sum()


def test_compare_when_results_match_the_batch_in_any_order_then_equal(source: Path, write: Callable[..., Path]) -> None:
    results = write(lambda frame: frame.sample(frac=1, random_state=3))
    found = compare(source, results)
    assert found.equal, found
    assert settled(source, results)


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        (lambda f: f.iloc[1:], "lost"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "doubled"),
        (lambda f: f.assign(row_ids=[[-1, *ids] for ids in f["row_ids"]]), "foreign"),
        (lambda f: f.assign(seats=f["seats"] + 1), "differing"),
        (lambda f: f.assign(mean_dep_delay_min=f["mean_dep_delay_min"] + 1e-9), "differing"),
        (lambda f: f.assign(tailnum=f["tailnum"].where(f.index != 0, "N0")), "differing"),
    ],
)
def test_compare_names_the_flaw_of_wrong_results(
    source: Path, write: Callable[..., Path], change: Callable[[pd.DataFrame], pd.DataFrame], flaw: str
) -> None:
    found = compare(source, write(change))
    assert not found.equal
    assert getattr(found, flaw) > 0
    assert found.example


def test_settled_is_false_if_rows_or_the_table_are_missing(
    source: Path, write: Callable[..., Path], tmp_path: Path
) -> None:
    assert not settled(source, tmp_path / "nowhere")
    assert not settled(source, write(lambda frame: frame.iloc[1:]))
