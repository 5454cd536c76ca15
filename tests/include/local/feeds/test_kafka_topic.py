"""The feed of a topic, using a broker that runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from millrace.lake.source_tables import SourceTable, query
from millrace.local.feeds.kafka_broker import KafkaBroker, stop
from millrace.local.feeds.kafka_topic import RecordedTopic, make_topic
from millrace.local.stack import loopback
from millrace.model.errors import MillraceError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("row_id", pa.int64()), ("event_time", pa.timestamp("us", "UTC")), ("carrier", pa.string())])
TICK = "feed"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    made = KafkaBroker.make(tmp_path_factory.mktemp("kafka") / "broker")
    process = made.start()
    yield made
    stop(process)
    assert not made.answers()


def rows(first: int, n: int) -> pa.Table:
    numbers = range(first, first + n)
    return pa.table([list(numbers), [n * 1_000_000 for n in numbers], ["B6"] * n], schema=SCHEMA)


def sent(broker: KafkaBroker, topic: str, partitions: int) -> list[list[dict[str, object]]]:
    """Return the rows of each partition."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "test", "enable.auto.commit": False})
    found = []
    for number in range(partitions):
        part = TopicPartition(topic, number, 0)
        _, end = consumer.get_watermark_offsets(part)
        consumer.assign([part])
        found.append([json.loads(m.value()) for m in consumer.consume(end, 30.0)] if end else [])
    consumer.close()
    return found


def test_rows_reach_all_partitions_once_and_are_recorded(broker: KafkaBroker, tmp_path: Path) -> None:
    table = SourceTable(tmp_path / "sent", SCHEMA, "test")
    topic = RecordedTopic(broker.address, "flights", 3, table)
    assert topic.append(rows(0, 7), 2, TICK, 0) is not None
    again = RecordedTopic(broker.address, "flights", 3, table)
    assert again.last(TICK) == 0
    assert again.append(rows(0, 7), 2, TICK, 0) is None  # recorded before, so not sent
    again.append(rows(7, 5), 2, TICK, 1)
    parts = sent(broker, "flights", 3)
    assert [len(part) for part in parts] == [5, 4, 3]
    flights = sorted((row for part in parts for row in part), key=lambda row: row["row_id"])
    assert flights[3] == {"row_id": 3, "event_time": "1970-01-01T00:00:03.000000Z", "carrier": "B6"}
    recorded = query("select row_id from sent order by row_id", sent=tmp_path / "sent")["row_id"].to_pylist()
    assert [row["row_id"] for row in flights] == recorded == list(range(12))


def test_broker_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.local.feeds.kafka_topic.SEND_S", 1.0)
    nobody = f"{loopback.HOST}:{loopback.any_free()}"
    with pytest.raises(MillraceError, match=rf"{nobody}.*a broker that answers"):
        make_topic(nobody, "flights", 1)


def test_existing_topic_is_left_as_it_is(broker: KafkaBroker) -> None:
    make_topic(broker.address, "kept", 2)
    make_topic(broker.address, "kept", 5)
    assert len(sent(broker, "kept", 2)) == 2
