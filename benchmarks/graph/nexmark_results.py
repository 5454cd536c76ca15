"""The results that Nexmark's queries should have, computed with pandas from the table of events, and those of a graph.

Both are counts of rows, in which a missing row and a row that occurs twice both show. Rows of windows that the
feed's closing events have opened are left out: how many of these windows are complete depends on the micro-batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from millrace.lake.source_tables import is_table, query
from millrace.local.feeds.nexmark import CLOSES
from millrace.local.feeds.nexmark_events import AUCTION, BID, PERSON

Row = tuple[Any, ...]

EUROS_PER_DOLLAR = Decimal("0.908")
EVERY = 123
STATES, CATEGORY, REMEMBERED = ("OR", "ID", "CA"), 10, pd.Timedelta("10min")
LENGTH, SLIDE = pd.Timedelta("10s"), pd.Timedelta("2s")


def expected(name: str, events: Path) -> Counter[Row]:
    """Return the rows that a query should have, by how often.

    Args:
        name: ``q1``, ``q2``, ``q3``, ``q5`` or ``q8``.
        events: Table of events, complete or not.
    """
    columns, compute = QUERIES[name]
    return _counted(compute(events), columns)


def found(name: str, results: Path) -> Counter[Row]:
    """Return the rows that a query's table of results has, by how often; none if the table does not exist yet."""
    columns, _ = QUERIES[name]
    if not is_table(results):
        return Counter()
    return _counted(query(f"select {', '.join(columns)} from results", results=results).to_pandas(), columns)  # noqa: S608


def _counted(rows: pd.DataFrame, columns: tuple[str, ...]) -> Counter[Row]:
    for column in {"window_start", "opened_at"} & set(columns):
        rows = rows[rows[column] < CLOSES]
    return Counter(rows[list(columns)].itertuples(index=False, name=None))


def _of_kind(events: Path, kind: str, fields: Any) -> pd.DataFrame:
    columns = ", ".join(f"{kind}['{field.name}'] as {field.name}" for field in fields)
    return query(f"select row_id, event_time, {columns} from e where kind = '{kind}'", e=events).to_pandas()  # noqa: S608


def _q1(events: Path) -> pd.DataFrame:
    bids = _of_kind(events, "bid", BID)
    return bids.assign(price=[Decimal(price) * EUROS_PER_DOLLAR for price in bids["price"].tolist()])


def _q2(events: Path) -> pd.DataFrame:
    bids = _of_kind(events, "bid", BID)
    return bids[bids["auction"] % EVERY == 0]


def _q3(events: Path) -> pd.DataFrame:
    sellers = _sellers_with_auctions(events)
    known = (sellers["opened_at"] - sellers["joined_at"]).between(pd.Timedelta(0), REMEMBERED)
    return sellers[known & sellers["state"].isin(STATES) & (sellers["category"] == CATEGORY)]


def _q5(events: Path) -> pd.DataFrame:
    bids = _of_kind(events, "bid", BID)
    newest = bids["event_time"].dt.floor(SLIDE)
    windows = pd.concat(bids.assign(window_start=newest - n * SLIDE) for n in range(LENGTH // SLIDE))
    counts = windows.groupby(["window_start", "auction"]).size().rename("bids").reset_index()
    return counts[counts["bids"] == counts.groupby("window_start")["bids"].transform("max")]


def _q8(events: Path) -> pd.DataFrame:
    sellers = _sellers_with_auctions(events)
    sellers = sellers.assign(window_start=sellers["joined_at"].dt.floor(LENGTH))
    return sellers[sellers["window_start"] == sellers["opened_at"].dt.floor(LENGTH)]


def _sellers_with_auctions(events: Path) -> pd.DataFrame:
    persons = _of_kind(events, "person", PERSON).rename(columns={"event_time": "joined_at"})
    auctions = _of_kind(events, "auction", AUCTION).rename(columns={"event_time": "opened_at", "id": "auction"})
    return persons.merge(auctions.drop(columns="row_id"), left_on="id", right_on="seller")


QUERIES: Mapping[str, tuple[tuple[str, ...], Callable[[Path], pd.DataFrame]]] = {
    "q1": (("row_id", "auction", "bidder", "price"), _q1),
    "q2": (("row_id", "auction", "price"), _q2),
    "q3": (("name", "city", "state", "auction", "opened_at"), _q3),
    "q5": (("window_start", "auction", "bids"), _q5),
    "q8": (("window_start", "id", "name", "auction", "reserve"), _q8),
}
"""Columns and batch computation of each query."""
