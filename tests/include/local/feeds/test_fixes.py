"""Positions of cars: seeded, with frequent areas that change, and bursts; a feed continues where it stopped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

from millrace.lake.source_tables import query
from millrace.local.feeds.fixes import BURST, SCHEMA, Fixes, main
from millrace.model.errors import MillraceError

FIXES = Fixes(seed=3, rows_per_s=100, shift_s=60)


def areas(seconds: range) -> Counter[str]:
    return Counter(area for n in seconds for area in FIXES.second(n)["area"].to_pylist())


def test_rows_depend_only_on_the_seed_and_the_second() -> None:
    assert FIXES.second(7).equals(Fixes(3, 100, 60).second(7)) and FIXES.second(7).schema == SCHEMA
    assert not FIXES.second(7)["car"].equals(Fixes(4, 100, 60).second(7)["car"])
    table = pa.concat_tables([FIXES.second(n) for n in range(50)])
    assert len(set(table["row_id"].to_pylist())) == table.num_rows
    assert table["at"].to_pylist() == sorted(table["at"].to_pylist())


def test_a_few_areas_have_most_rows_until_others_do() -> None:
    first, second = areas(range(60)), areas(range(60, 120))
    for counted in (first, second):
        assert 0.15 < counted.most_common(1)[0][1] / counted.total() < 0.28
    top = [{area for area, _ in counted.most_common(5)} for counted in (first, second)]
    assert not top[0] & top[1]


def test_some_seconds_have_five_times_the_rows() -> None:
    rows = [FIXES.second(n).num_rows for n in range(300)]
    bursts = [count for count in rows if count > 0.8 * BURST * FIXES.rows_per_s]
    assert 15 <= len(bursts) <= 45 and all(85 <= count <= 115 for count in rows if count not in bursts)
    assert 0 < pc.mean(pc.less(FIXES.second(5)["speed"], 10).cast("int64")).as_py() < 0.3


def test_feed_continues_where_it_stopped(tmp_path: Path) -> None:
    for _ in range(2):
        words = ["--table", str(tmp_path / "t"), "--rows-per-s", "5", "--for-s", "1", "--parts", "2"]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    assert "2 seconds" in done.output
    found = query("select row_id from t order by row_id", t=tmp_path / "t")["row_id"].to_pylist()
    assert found == [i for n in range(2) for i in Fixes(0, 5).second(n)["row_id"].to_pylist()]


def test_rate_out_of_range_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match="--rows-per-s"):
        Fixes(rows_per_s=0)
    assert "error: --rows-per-s" in CliRunner().invoke(main, ["--table", str(tmp_path), "--rows-per-s", "-1"]).output
