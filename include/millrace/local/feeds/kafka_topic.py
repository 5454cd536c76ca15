"""Send a replay's rows to a Kafka topic, as JSON, and record them in a source table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millrace.lake.source_tables import SourceTable
from millrace.model.errors import MillraceError

LOG_ERRORS = 3
"""Syslog level. A broker that has just started makes a producer log warnings."""
SEND_S = 30.0
"""If the broker has not accepted a row after this time, the feed fails."""


def make_topic(servers: str, name: str, partitions: int) -> None:
    """Create a topic if it does not exist.

    Args:
        servers: Addresses of brokers, ``host:port``, separated by commas.
        name: The topic.
        partitions: Its partitions, >= 1.

    Raises:
        MillraceError: If no broker answers, or it refuses the topic.
    """
    admin = AdminClient({"bootstrap.servers": servers, "log_level": LOG_ERRORS})  # kept until it has answered
    try:
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(SEND_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _unreachable(servers, error.args[0]) from error
    except TimeoutError as error:
        raise _unreachable(servers, "no answer") from error


class RecordedTopic:
    """A topic, and a table that records what was sent to it.

    A tick is first sent, then recorded. If the feed is killed in between, it sends that tick again.

    Args:
        servers: Addresses of brokers, ``host:port`` with commas between.
        name: The topic; if it does not exist, it is created with ``partitions``.
        partitions: Its partitions, >= 1.
        table: Records the same rows.

    Raises:
        MillraceError: If no broker answers, or it refuses the topic.
    """

    def __init__(self, servers: str, name: str, partitions: int, table: SourceTable) -> None:
        make_topic(servers, name, partitions)
        self._name, self._partitions, self._table = name, partitions, table
        self._refused: list[KafkaError] = []
        settings = {"bootstrap.servers": servers, "enable.idempotence": True, "message.timeout.ms": int(1000 * SEND_S)}
        self._producer, self._servers = Producer({**settings, "log_level": LOG_ERRORS}), servers

    def last(self, transaction: str) -> int:
        """Return the last number recorded under a transaction id, -1 before the first."""
        return self._table.last(transaction)

    def append(self, rows: pa.Table, parts: int, transaction: str, number: int) -> int | None:
        """Send rows, spread over all partitions, and record them.

        Args:
            rows: Rows in the table's schema.
            parts: Files of the table's commit, >= 1.
            transaction: Application transaction id.
            number: Transaction number, increased by the caller; an already recorded number is not sent.

        Returns:
            The table's version; None if nothing was sent.

        Raises:
            MillraceError: If the broker does not accept them, or the table cannot be written.
        """
        if number <= self.last(transaction):
            return None
        for place, row in enumerate(_json(rows)):
            self._producer.produce(self._name, row, partition=place % self._partitions, on_delivery=self._delivered)
            self._producer.poll(0)
        if self._producer.flush(SEND_S) or self._refused:
            raise _unreachable(self._servers, self._refused[0] if self._refused else "no answer")
        return self._table.append(rows, parts, transaction, number)

    def _delivered(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self._refused.append(error)


def _json(rows: pa.Table) -> list[bytes]:
    """Return each row as JSON, times as UTC text."""
    times = {
        field.name: pc.strftime(rows[field.name], "%Y-%m-%dT%H:%M:%SZ")
        for field in rows.schema
        if pa.types.is_timestamp(field.type)
    }
    columns = {name: times.get(name, rows[name]) for name in rows.column_names}
    lines: str = pa.table(columns).to_pandas().to_json(orient="records", lines=True)
    return lines.encode().splitlines()


def _unreachable(servers: str, error: object) -> MillraceError:
    return MillraceError(
        "--bootstrap-servers", f"{servers}: {error}", "a broker that answers", "Start it, or name another broker."
    )
