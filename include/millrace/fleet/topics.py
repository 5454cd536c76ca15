"""The topics of Kafka brokers."""

from __future__ import annotations

from collections.abc import Iterable

from millrace.model.errors import MillraceError

ANSWER_S = 10.0


def list_topics(brokers: str) -> Iterable[str]:
    """Return the names of all topics but Kafka's own.

    Args:
        brokers: Their addresses, ``host:port,host:port``.

    Raises:
        MillraceError: If none of them answers, or Python has no Kafka client.
    """
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    except ImportError:
        remedy = "pip install confluent-kafka, or list the topics in fleet.streams.list."
        raise MillraceError("fleet.streams.topics", brokers, "a Python with a Kafka client", remedy) from None
    try:
        found = AdminClient({"bootstrap.servers": brokers, "log_level": 0}).list_topics(timeout=ANSWER_S)
    except KafkaException as error:
        allowed = f"brokers that answer within {ANSWER_S:g} s"
        raise MillraceError("fleet.streams.brokers", brokers, allowed, f"Start or correct them ({error}).") from None
    return [name for name in found.topics if not name.startswith("__")]
