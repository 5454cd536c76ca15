"""What a Kafka source says before its first look and with ``availableNow``; a broker is in tests/jobs/test_kafka.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from millrace.model.arrival import ArrivalBasis
from millrace.runtime.telemetry.positions import Positions
from millrace.runtime.telemetry.sources.api import UNKNOWN, Position, Source

NAME = "KafkaV2[Subscribe[clicks]]"
START_OF_QUERY = 300
"""End of the topic's only partition when the query started."""


def named(name: str) -> Any:
    return SimpleNamespace(getSimpleName=lambda: name)


class Broker:
    """Spark's reader of a topic whose partition grows by 100 rows between two looks; its query ends on demand."""

    def __init__(self, kind: str = "KafkaOffsetReaderAdmin") -> None:
        self.kind, self.end, self.active, self.looks, self.open = kind, START_OF_QUERY, True, 0, True
        self.ends_during_look = False

    def getClass(self) -> Any:  # noqa: N802 - Java's name
        return named(self.kind)

    def fetchLatestOffsets(self, known: Any) -> Any:  # noqa: N802 - Spark's name
        assert known == "None"
        self.end, self.looks, self.active = self.end + 100, self.looks + 1, not self.ends_during_look
        text = f"clicks-0 -> {self.end}"
        return SimpleNamespace(mkString=lambda separator: text)

    def close(self) -> None:
        self.open = False


def following(broker: Broker, trigger: str = "AvailableNowTrigger$", latest: Any = None) -> Positions:
    stream = SimpleNamespace(toString=lambda: NAME, kafkaOffsetReader=lambda: broker, reportLatestOffset=latest)
    query = SimpleNamespace(
        trigger=lambda: SimpleNamespace(getClass=lambda: named(trigger)), isActive=lambda: broker.active
    )
    gateway = SimpleNamespace(jvm=SimpleNamespace(scala=SimpleNamespace(Option=SimpleNamespace(empty=lambda: "None"))))
    return Positions.following([Source(NAME, (stream,), gateway, query=query)])


def batch(number: int) -> dict[str, Any]:
    """Return one of three batches of 100 rows, as Spark reports it with ``availableNow``."""
    start, end, latest = ({"clicks": {"0": n}} for n in (100 * number, 100 * number + 100, START_OF_QUERY))
    return {"description": NAME, "startOffset": start, "endOffset": end, "latestOffset": latest, "numInputRows": 100}


def counted(backlog: int, end: int) -> Position:
    return Position(backlog, end, 100, ArrivalBasis.COUNTED, {"clicks/0": backlog})


def test_rows_that_arrive_during_an_available_now_run_count() -> None:
    positions = following(Broker())
    assert [positions.of([batch(n)]) for n in range(3)] == [counted(300, 400), counted(300, 500), counted(300, 600)]
    assert positions.at_rest([batch(2)]) == UNKNOWN, "the broker is asked once per batch"


def test_broker_is_not_asked_for_a_query_that_has_ended() -> None:
    """Spark has closed the connection, and would open one that nothing closes."""
    broker = Broker()
    positions = following(broker)
    positions.of([batch(0)])
    broker.active = False
    assert positions.of([batch(1)]) == counted(200, 400), "the end that was last seen"
    assert broker.looks == 1 and broker.open
    planned = Position(0, START_OF_QUERY, 100, ArrivalBasis.PLANNED, {"clicks/0": 0})
    assert following(broker).of([batch(2)]) == planned, "a run of one batch"


def test_connection_made_for_a_query_that_ends_meanwhile_is_closed() -> None:
    broker = Broker()
    broker.ends_during_look = True
    assert following(broker).of([batch(2)]) == counted(100, 400)
    assert not broker.open


def test_available_now_run_is_unknown_if_the_broker_cannot_be_asked() -> None:
    assert following(Broker("KafkaOffsetReaderConsumer")).of([batch(0)]) == UNKNOWN


def test_source_that_has_not_looked_yet_is_unknown_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Spark 4.2 then raises a NullPointerException."""

    def unseen() -> Any:
        raise Py4JJavaError("An error occurred", SimpleNamespace(_target_id="o1"))

    assert following(Broker(), "ProcessingTimeTrigger", unseen).at_rest([batch(0)]) == UNKNOWN
    assert not caplog.messages
