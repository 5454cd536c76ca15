"""Lost and duplicate pairs show in the benchmark's figures."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.esj.spark_join import IDS, WEATHER, _different

PAIRS = [(1, 2), (1, 3), (4, 4)]


@pytest.mark.parametrize(
    ("found", "different"), [(PAIRS, 0), (PAIRS[1:], 1), ([*PAIRS, (1, 2)], 1), ([*PAIRS[1:], (9, 9), (9, 9)], 3)]
)
def test_different_when_pairs_are_lost_or_doubled_then_counts_them(tmp_path: Path, found, different: int) -> None:
    folder = tmp_path / "results" / WEATHER.name / "batch=0"
    folder.mkdir(parents=True)
    pd.DataFrame(found, columns=IDS).to_parquet(folder / "part.parquet")
    assert _different(tmp_path, WEATHER, pd.DataFrame(PAIRS, columns=IDS).value_counts()) == different
