"""Feeds of the workloads, and how their results are compared."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.graph.loads import Load
from benchmarks.graph.workloads import WORKLOADS, Difference
from millrace.lake.source_tables import SourceTable, query

LOAD = Load((30.0, 60.0), (2, 1))
COUNTS = pa.schema([("word", pa.string()), ("times", pa.int64())])


def fed(name: str, data: Path) -> None:
    feed = WORKLOADS[name].feed(data, LOAD, 0)
    for rows in LOAD.counts:
        feed.commit(rows)
    feed.finish()


@pytest.mark.parametrize(("name", "table"), [("wordcount", "sentences"), ("q1", "nexmark/events")])
def test_feed_commits_the_rows_of_the_load(name: str, table: str, tmp_path: Path) -> None:
    fed(name, tmp_path)
    rows = query("select row_id from t order by row_id", t=tmp_path / table)["row_id"].to_pylist()
    assert rows == list(range(len(rows))) and len(rows) >= sum(LOAD.counts)


def test_counts_are_compared_with_the_words_of_all_sentences(tmp_path: Path) -> None:
    fed("wordcount", tmp_path)
    compare, texts = WORKLOADS["wordcount"].compare, query("select text from s", s=tmp_path / "sentences")["text"]
    words = Counter(re.findall(r"[a-z]+", " ".join(texts.to_pylist()).lower()))
    assert compare(tmp_path) == Difference(words.total(), 0)

    def write(counts: Counter[str], number: int) -> None:
        rows = pa.table({"word": list(counts), "times": list(counts.values())}, COUNTS)
        SourceTable(tmp_path / "counts", COUNTS, "counts").append(rows, 1, "test", number)

    write(words - Counter({"the": 2}), 0)
    assert compare(tmp_path) == Difference(2, 0)
    write(Counter({"the": 5}), 1)
    assert compare(tmp_path) == Difference(0, 3)


def test_query_without_results_lacks_all_rows(tmp_path: Path) -> None:
    feed = WORKLOADS["q1"].feed(tmp_path, LOAD, 0)
    for rows in LOAD.counts:
        feed.commit(rows)
    difference = WORKLOADS["q1"].compare(tmp_path)
    assert difference.doubled == 0 and difference.lost == pytest.approx(sum(LOAD.counts) * 46 / 50, rel=0.1)
