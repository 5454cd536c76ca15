"""Nexmark's events and their feed: seeded, in proportion, with references that exist, and without gaps after a stop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from millrace.lake.source_tables import SourceTable, query
from millrace.local.feeds import feed
from millrace.local.feeds.nexmark import (
    BEGINS,
    CLOSES,
    CLOSING_ROUNDS,
    TRANSACTION,
    NexmarkFeed,
    Steps,
    closing,
    main,
    run,
)
from millrace.local.feeds.nexmark_events import AUCTIONS, CATEGORIES, ROUND, SCHEMA, NexmarkEvents
from millrace.model.errors import MillraceError
from tests.examples import examples

EVENTS = NexmarkEvents(7)
SMALL = NexmarkFeed(EVENTS, Steps.parse("30:2,0:1,90:3"), tick_s=0.5)
STEPS = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 9)), min_size=1, max_size=4)


def taken(first: int, count: int, seed: int = 7) -> pa.Table:
    numbers = np.arange(first, first + count)
    return NexmarkEvents(seed).take(first, numbers * 1000)


def of_kind(events: pa.Table, kind: str) -> pd.DataFrame:
    chosen = events.filter(pc.equal(events["kind"], kind))
    return pd.DataFrame(chosen[kind].to_pylist()).assign(
        row_id=chosen["row_id"].to_pylist(), event_time=chosen["event_time"].to_pandas()
    )


def test_same_seed_gives_the_same_events_and_another_seed_others() -> None:
    assert taken(0, 500).equals(taken(0, 500))
    others = taken(0, 500, seed=8)
    assert others["kind"].equals(taken(0, 500)["kind"])
    for kind in ("person", "auction", "bid"):
        assert not others[kind].equals(taken(0, 500)[kind])


@examples(30)
@given(st.integers(0, 10**12), st.integers(0, 120), st.integers(0, 120))
def test_event_depends_only_on_its_number_and_seed(first: int, skipped: int, count: int) -> None:
    whole = taken(first, skipped + count)
    assert whole.schema.equals(SCHEMA)
    assert whole.slice(skipped).equals(taken(first + skipped, count))


@examples(30)
@given(st.integers(0, 10**9))
def test_fifty_events_are_a_person_three_auctions_and_46_bids(first: int) -> None:
    kinds = taken(first, ROUND)["kind"].to_pylist()
    assert [kinds.count(kind) for kind in ("person", "auction", "bid")] == [1, AUCTIONS, ROUND - 1 - AUCTIONS]


def test_exactly_the_column_of_the_kind_is_filled() -> None:
    rows = taken(0, 200).to_pylist()
    for row in rows:
        assert [kind for kind in ("person", "auction", "bid") if row[kind] is not None] == [row["kind"]]
        assert all(value is not None for value in row[row["kind"]].values())


def test_events_name_only_what_exists() -> None:
    events = taken(0, 20_000)
    persons, auctions, bids = (of_kind(events, kind) for kind in ("person", "auction", "bid"))
    for made in (persons, auctions):
        assert made["id"].tolist() == list(range(made["id"].min(), made["id"].min() + len(made)))
    made_at = {"person": persons.set_index("id")["row_id"], "auction": auctions.set_index("id")["row_id"]}
    named = (auctions, "seller", "person"), (bids, "bidder", "person"), (bids, "auction", "auction")
    for rows, column, kind in named:
        assert (rows[column].map(made_at[kind]) < rows["row_id"]).all(), column


def test_values_are_plausible() -> None:
    events = taken(0, 20_000)
    persons, auctions, bids = (of_kind(events, kind) for kind in ("person", "auction", "bid"))
    assert set(auctions["category"]) == set(CATEGORIES)
    assert {"OR", "ID", "CA"} < set(persons["state"]) and persons.groupby("city")["state"].nunique().max() == 1
    assert persons["email"].is_unique and persons["credit_card"].str.fullmatch(r"\d{16}").all()
    assert (auctions["reserve"] > auctions["initial_bid"]).all()
    assert (auctions["expires"] > auctions["event_time"]).all()
    assert bids["price"].between(100, 100_000_000).all() and bids["price"].median() > 10_000


def test_few_auctions_sellers_and_bidders_are_hot() -> None:
    events = taken(0, 50_000)
    auctions, bids = of_kind(events, "auction"), of_kind(events, "bid")
    for ids, share in ((bids["auction"], 0.5), (bids["bidder"], 0.75), (auctions["seller"], 0.75)):
        counts = ids.value_counts()
        hot = counts.index[: 1 + (ids.max() - ids.min()) // 100]
        assert abs(counts[hot].sum() / len(ids) - share) < 0.05, ids.name
    # hot bidders do not sell
    assert bids["bidder"].value_counts().index[0] not in auctions["seller"].value_counts().index[:5]


def test_events_of_a_step_are_equally_far_apart() -> None:
    ticks = [SMALL.tick(n) for n in range(SMALL.clock.ticks)]
    rows = pa.concat_tables(ticks).to_pandas()
    assert [tick.num_rows for tick in ticks] == [15] * 4 + [0] * 2 + [45] * 6
    passed_s = (rows["event_time"] - BEGINS).dt.total_seconds()
    assert np.allclose(passed_s[:60], np.arange(60) / 30, atol=1e-5)
    assert np.allclose(passed_s[60:], 3 + np.arange(270) / 90, atol=1e-5)


@examples(40)
@given(STEPS, st.floats(0.2, 9))
def test_ticks_have_each_event_once_in_order_of_time(steps: list[tuple[int, int]], tick_s: float) -> None:
    source = NexmarkFeed(EVENTS, Steps(tuple((float(rate), float(seconds)) for rate, seconds in steps)), tick_s)
    ticks = [source.tick(n) for n in range(source.clock.ticks + 1)]
    rows = pa.concat_tables(ticks)
    assert rows["row_id"].to_pylist() == list(range(source.rows))
    assert source.rows == sum(rate * seconds for rate, seconds in steps) + CLOSING_ROUNDS * ROUND
    assert rows["event_time"].to_pandas().is_monotonic_increasing
    real = rows.slice(0, source.rows - CLOSING_ROUNDS * ROUND)["event_time"].to_pandas()
    of_tick = np.arange(source.clock.ticks).repeat([tick.num_rows for tick in ticks[:-1]])
    passed_s = (real - BEGINS).dt.total_seconds().to_numpy()
    assert np.all(passed_s >= of_tick * tick_s - 1e-5) and np.all(passed_s <= (of_tick + 1) * tick_s + 1e-5)


def test_closing_events_come_in_rounds_a_day_apart_long_after_all_others() -> None:
    last = SMALL.tick(SMALL.clock.ticks)
    assert last.equals(closing(EVENTS, SMALL.rows - last.num_rows))
    days = last.to_pandas().groupby("event_time")["kind"].apply(set)
    assert len(days) == CLOSING_ROUNDS and all(kinds == {"person", "auction", "bid"} for kinds in days)
    assert days.index[0] == CLOSES and set(np.diff(days.index) / pd.Timedelta("1D")) == {1}


@pytest.mark.parametrize("text", ["", "100", "100:0", "-1:10", "100:10,", "a:b", "nan:1", "inf:1", "1:2:3"])
def test_rates_that_are_no_steps_are_refused_with_the_form(text: str) -> None:
    with pytest.raises(MillraceError) as refused:
        Steps.parse(text)
    assert refused.value.key == "--rates"


@examples(12)
@given(stops=st.lists(st.integers(0, SMALL.clock.ticks), max_size=3))
def test_stopped_feed_continues_with_each_event_once(
    tmp_path_factory: pytest.TempPathFactory, stops: list[int]
) -> None:
    table, told = tmp_path_factory.mktemp("feed") / "events", []
    for ticks in stops:
        left = iter(range(ticks, -1, -1))
        run(SMALL, opened(table), 2, lambda _, left=left: next(left) == 0, told.append)
    assert run(SMALL, opened(table), 2, never, told.append)
    assert run(SMALL, opened(table), 2, never, told.append), "a finished feed has nothing to add"
    assert told[-1] == f"done: {SMALL.rows} rows"
    assert written(table) == list(range(SMALL.rows))


def never(_: float) -> bool:
    return False


def opened(table: Path) -> SourceTable:
    """The table, as a new process opens it."""
    return SourceTable(table, SCHEMA, SMALL.content)


def written(table: Path) -> list[int]:
    return query("select row_id from t order by row_id", t=table)["row_id"].to_pylist()


def invoke(monkeypatch: pytest.MonkeyPatch, table: Path, *words: str) -> Result:
    monkeypatch.setattr(feed, "stoppable", lambda _: never)
    return CliRunner().invoke(main, [f"--table={table}", *words])


def test_command_fills_the_table_and_tells_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = invoke(monkeypatch, tmp_path / "events", "--rates=30:2,0:1,90:3", "--seed=7", "--tick-s=0.5", "--parts=2")
    assert told.exit_code == 0, told.output
    assert told.output.splitlines() == [
        "step 1 of 3: 30 rows/s for 2 s",
        "step 2 of 3: 0 rows/s for 1 s",
        "step 3 of 3: 90 rows/s for 3 s",
        f"done: {SMALL.rows} rows",
    ]
    assert opened(tmp_path / "events").last(TRANSACTION) == SMALL.clock.ticks
    stored = query("select * from t order by row_id", t=tmp_path / "events")
    ticks = [SMALL.tick(n) for n in range(SMALL.clock.ticks + 1)]
    assert stored.cast(SCHEMA).to_pylist() == pa.concat_tables(ticks).to_pylist()


def test_command_refuses_wrong_rates_and_another_seed_on_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path / "events")
    for words, message in (
        (["--rates=fast"], "ROWS_PER_S:SECONDS"),
        (["--rates=1:1", "--tick-s=0"], "--tick-s"),
        (["--rates=30:2,0:1,90:3", "--seed=8", "--tick-s=0.5"], "use the same settings, or a new folder"),
    ):
        told = invoke(monkeypatch, tmp_path / "events", *words)
        assert told.exit_code == 1 and message in told.output
