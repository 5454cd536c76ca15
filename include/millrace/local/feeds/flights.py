"""Replay the flights of 2013 into a Delta table: ``python -m millrace.local.feeds.flights --table DIR``.

With ``--topic NAME`` they go to a Kafka topic, and the table records what was sent. The rate follows the real hours of
the day: almost nothing at night, two peaks by day.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from millrace.lake.source_tables import SourceTable
from millrace.local.feeds.feed import TRANSACTION, Target, clock_options, filling, run, stoppable, table_option
from millrace.local.feeds.nycflights import flights
from millrace.local.feeds.replay_clock import SCHEMA, Clock, Replay


@click.command()
@table_option("--table", "table")
@click.option("--topic", help="Kafka topic to send the flights to, as JSON, with --parts partitions.")
@click.option("--bootstrap-servers", default="127.0.0.1:9092", show_default=True, help="Kafka brokers.")
@clock_options
def main(
    table: Path, topic: str | None, bootstrap_servers: str, parts: int, with_parent: bool, **settings: Any
) -> None:
    """Replay the flights of 2013 into a Delta table; an interrupted replay continues where it stopped."""
    wait = stoppable(with_parent)
    with filling(table):
        clock = Clock(**settings)
        sent = SourceTable(table, SCHEMA, clock.content)
        target: Target = sent
        if topic is not None:
            from millrace.local.feeds.kafka_topic import RecordedTopic

            target = RecordedTopic(bootstrap_servers, topic, parts, sent)
        run([(Replay(clock, flights()), target)], target.last(TRANSACTION) + 1, parts, wait)


if __name__ == "__main__":
    main()
