"""Streams that are redirected repeatedly: every row enters once, and a stream's rows keep their order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.local.feeds.replay_clock import Clock, Replay
from millrace.local.feeds.routing import Routing, RoutingLog, steer
from millrace.local.feeds.streams import Intake
from millrace.model.errors import MillraceError
from tests.examples import examples
from tests.flights import flights

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = 3
CLOCK = Clock(fold_days=1, days=0.5, day_s=24, start_hour=6, tick_s=1)
STREAMS = ["EWR/UA", "JFK/B6", "LGA/DL", "LGA/MQ"]


@pytest.fixture(scope="module")
def intake() -> Intake:
    return Intake(Replay(CLOCK, flights()), ("origin", "carrier"), ("a", "b", "c"))


def _routings(intake: Intake, wishes: list[dict[str, int]]) -> list[Routing]:
    routing, present, found = Routing(-1), {}, []
    for tick in range(CLOCK.ticks + 1):
        present |= dict.fromkeys(intake.streams(tick).unique().to_pylist(), tick)
        routing = steer(routing, tick, present, wishes[tick] if tick < CLOCK.ticks else {}, TABLES)
        found.append(routing)
    return found


@given(st.lists(st.dictionaries(st.sampled_from(STREAMS), st.integers(-1, TABLES)), min_size=12, max_size=12))
@examples(40)
def test_rows_of_redirected_streams_enter_once_and_in_order(intake: Intake, wishes: list[dict[str, int]]) -> None:
    assert CLOCK.ticks == 12
    entered: list[int] = []
    by_stream: dict[str, list[int]] = {}
    for routing in _routings(intake, wishes):
        for share in intake.shares(routing):
            ids = share["row_id"].to_pylist()
            entered += ids
            names = [f"{o}/{c}" for o, c in zip(share["origin"].to_pylist(), share["carrier"].to_pylist(), strict=True)]
            for name, row in zip(names, ids, strict=True):
                by_stream.setdefault(name, []).append(row)
    assert sorted(entered) == list(range(1, intake.replay.rows + 1))
    assert all(rows == sorted(rows) for rows in by_stream.values())


def test_stream_wanted_elsewhere_waits_a_tick_then_enters_there(intake: Intake) -> None:
    stream = "EWR/UA"
    wishes = [{stream: 0}] * 4 + [{stream: 2}] * 8
    routings = _routings(intake, wishes)
    assert [c.entry[stream] for c in routings[3:7]] == [0, 0, 2, 2]
    assert [stream in c.waiting for c in routings[3:7]] == [False, True, False, False]

    def rows(share: pa.Table) -> int:
        return sum(
            f"{o}/{c}" == stream for o, c in zip(*(share[n].to_pylist() for n in ("origin", "carrier")), strict=True)
        )

    counts = [[rows(share) for share in intake.shares(c)] for c in routings[3:7]]
    came = [intake.streams(t).to_pylist().count(stream) for t in range(3, 7)]
    assert counts == [[came[0], 0, 0], [0, 0, 0], [0, 0, came[1] + came[2]], [0, 0, came[3]]]


def test_unplaced_stream_enters_the_table_with_the_fewest() -> None:
    routing = steer(Routing(-1), 0, {"a": 0, "b": 0, "c": 0}, {"a": 1}, 2)
    assert routing.entry == {"a": 1, "b": 0, "c": 0}
    routing = steer(routing, 1, {"b": 0, "c": 0}, {"a": 1}, 2)
    assert routing.entry == {"b": 0, "c": 0}


def test_routing_out_of_turn_names_the_stream_and_what_to_do() -> None:
    routing = Routing(0).connect("s", 0)
    with pytest.raises(MillraceError, match=r"stream s.*connected.*Redirect"):
        routing.connect("s", 1)
    with pytest.raises(MillraceError, match=r"stream s.*Suspend it one tick earlier"):
        routing.redirect("s", 1)
    waiting = routing.suspend("s")
    with pytest.raises(MillraceError, match=r"stream s.*Suspend it one tick earlier"):
        waiting.resume("s")
    with pytest.raises(MillraceError, match=r"stream s.*Resume it first"):
        waiting.at(1).drop("s")
    with pytest.raises(MillraceError, match=r"stream t.*Connect it first"):
        routing.suspend("t")
    with pytest.raises(MillraceError, match="tick"):
        routing.at(0)


def test_log_when_its_last_line_was_cut_by_a_kill_then_continues_before_it(tmp_path: Path) -> None:
    path = tmp_path / "routings.jsonl"
    with RoutingLog(path, NOW) as log:
        first = Routing(0).connect("s", 0)
        log.add(first)
        log.add(first.at(3).suspend("s"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with RoutingLog(path, datetime(2027, 1, 1, tzinfo=UTC)) as log:
        assert (log.begun, log.last) == (NOW, 0)
        assert log.at(5) == first.at(5)
        log.add(first.at(3).suspend("s"))
    assert path.read_bytes() == whole


def test_log_when_another_feed_holds_it_then_is_refused(tmp_path: Path) -> None:
    with RoutingLog(tmp_path / "log", NOW), pytest.raises(MillraceError, match="no other feed uses"):
        RoutingLog(tmp_path / "log", NOW)


def test_log_empties_a_buffer_only_once(tmp_path: Path) -> None:
    with RoutingLog(tmp_path / "log", NOW) as log:
        routing = Routing(0).connect("s", 0)
        suspended = routing.at(1).suspend("s")
        resumed = suspended.at(2).redirect("s", 1).resume("s")
        for each in (routing, suspended, resumed, resumed.at(3)):
            log.add(each)
        assert log.at(2).resumed == {"s": 1}
        assert log.at(3).resumed == log.at(9).resumed == {}
        assert log.at(9).entry == {"s": 1}
