"""A plain script on a Kafka topic, using a broker that runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from millrace import wiring
from millrace.control.batch_history import sound
from millrace.environment.jars import CONNECTORS
from millrace.lake.row_codec import batch_from_row
from millrace.local.feeds.kafka_broker import KafkaBroker, stop
from millrace.local.stack.setup import ensure_jars
from millrace.model.arrival import ArrivalBasis
from millrace.model.decision import Action, Outcome, Reconfiguration
from millrace.model.signals import AppSignals
from millrace.run_folder.driver_records import DriverRecord, DriverState
from millrace.run_folder.process import ProcessId
from tests.include.runtime.telemetry.arriving import Write, arriving
from tests.jobs.adapting import Adapting, adapting, embedded_cluster
from tests.jobs.driving import SCRIPTS, until
from tests.jobs.totals import expected_totals, total

pytestmark = pytest.mark.platform

TOPIC, WAIT_S, LIMIT = "numbers", 0.02, 2000
"""A slot can process 50 rows/s. A batch takes 20 seconds' rows of two: on a busy machine it may cost seven besides."""
LOW, HIGH = 25.0, 110.0
PATIENT_MS, HASTY_MS = 300_000, 5_000
"""How long a query waits for its broker: more than a restart takes on any machine, and little."""
YAML = """\
name: numbers
script: {script}
args: ["{servers}", {topic}, {folder}/totals.json, {folder}/checkpoint, "{wait_s}", "{limit}", "{patience_ms}"]
submit: {{master: embedded, connectors: [kafka]}}
slots: {{min: 2, max: 8, start: 2}}
executor: {{cores: 2, memory_mb: 512}}
objective: {{target_utilisation: 0.75, max_lag_s: 80}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
tuner: {{options: {{change_s: 0}}}}
ready_deadline_s: 600
"""


@dataclass
class Broker:
    """A broker that stops and starts again."""

    kafka: KafkaBroker
    process: ProcessId

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka.address})

    def away(self) -> None:
        stop(self.process)

    def back(self) -> None:
        self.process = self.kafka.start()

    def topic(self, partitions: int) -> Write:
        """Create the topic, and return a function that sends each chunk of rows to it."""
        self.admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result()
        producer = Producer({"bootstrap.servers": self.kafka.address, "enable.idempotence": True, "log_level": 0})

        def write(rows: pa.Table, _: int) -> None:
            for n in rows["id"].to_pylist():
                producer.produce(TOPIC, str(n).encode())
            producer.flush()

        return write


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    ensure_jars(CONNECTORS["kafka"])
    kafka = KafkaBroker.make(tmp_path / "kafka")
    running = Broker(kafka, kafka.start())
    yield running
    stop(running.process)


def spec(folder: Path, broker: Broker, patience_ms: int, limit: int = LIMIT) -> str:
    values = {"script": SCRIPTS / "kafka_totals.py", "folder": folder, "servers": broker.kafka.address}
    return YAML.format(**values, topic=TOPIC, wait_s=WAIT_S, limit=limit, patience_ms=patience_ms)


def newest(pipeline: Adapting) -> AppSignals:
    signals = pipeline.decisions[-1].signals
    assert signals is not None
    return signals.apps[0]


def rate(signals: AppSignals) -> float:
    return signals.arrival_rows_per_s or 0.0


def knows_what_a_slot_can_do(signals: AppSignals) -> bool:
    """Say whether the ability is that of the slots; a small batch is no small ability, a cold one may look like it."""
    capacity = signals.capacity
    return capacity is not None and capacity.rows_per_s == pytest.approx(capacity.parallelism / WAIT_S, rel=0.3)


def test_pipeline_on_a_topic_grows_with_it_and_survives_its_broker(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "totals.json"
    with embedded_cluster(tmp_path, monkeypatch), ExitStack() as feed:
        arrivals = feed.enter_context(arriving(broker.topic(2), LOW))
        with adapting(tmp_path / "numbers.yaml", spec(tmp_path, broker, PATIENT_MS)) as pipeline:
            pipeline.until(lambda: pipeline.knows_its_ability() and knows_what_a_slot_can_do(newest(pipeline)))
            period = pipeline.decisions[-1].signals
            assert period is not None
            arrived = arrivals.rate(period.since.timestamp(), period.until.timestamp())
            assert newest(pipeline).arrival_basis is ArrivalBasis.COUNTED
            assert rate(newest(pipeline)) == pytest.approx(arrived, rel=0.2)
            arrivals.rows_per_s = HIGH
            pipeline.until(lambda: pipeline.app().slots > 2 and rate(newest(pipeline)) > 2 * LOW)
            broker.admin.create_partitions([NewPartitions(TOPIC, 4)])[TOPIC].result()
            broker.away()
            broker.back()
            arrivals.rows_per_s = LOW
            pipeline.until(lambda: pipeline.app().slots == 2)
            feed.close()
            until(lambda: total(results) == arrivals.rows[-1], "all rows in the results")
    rows = arrivals.rows[-1]
    assert json.loads(results.read_text()) == expected_totals(rows)
    pipeline.assert_live()
    steps = [d.sentence for d in pipeline.decisions if d.action is Action.APPLY]
    assert all("rows/s arrive" in sentence for sentence in steps), steps


def test_available_now_run_measures_what_arrives_while_it_reads_the_topic(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    text = spec(tmp_path, broker, PATIENT_MS, limit=50).replace(f'"{PATIENT_MS}"', f'"{PATIENT_MS}", available_now')
    text = text.replace("embedded", "local").replace("executor:", "# executor:")
    with arriving(broker.topic(2), LOW) as arrivals:
        until(lambda: arrivals.rows[-1] > 20 * LOW, "rows for ten batches of 50")
        with adapting(tmp_path / "numbers.yaml", text) as pipeline:
            reconciler = wiring.own_reconciler(pipeline.spec, pipeline.loop.tables)
            until(lambda: reconciler.status()[0].state is DriverState.COMPLETED, "the end of the run")
            found = pipeline.loop.tables.lake.rows("select * from batches order by time", "telemetry/batches")
    batches = sound(map(batch_from_row, found))
    first, last = batches[0], batches[-2]  # the query may end before the last one is reported
    measured = ((last.source_end or 0) - (first.source_end or 0)) / (last.time - first.time).total_seconds()
    assert measured == pytest.approx(arrivals.rate(first.time.timestamp(), last.time.timestamp()), rel=0.3)


def test_query_runs_again_once_its_broker_is_back_and_says_that_its_topic_is_gone(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    write = broker.topic(2)
    write(pa.table({"id": range(70)}), 0)
    text = spec(tmp_path, broker, HASTY_MS).replace("embedded", "local").replace("executor:", "# executor:")
    with adapting(tmp_path / "numbers.yaml", text) as pipeline:
        until(lambda: total(tmp_path / "totals.json") == 70, "all rows in the results")

        def reconcile() -> Sequence[Reconfiguration]:
            return wiring.own_reconciler(pipeline.spec, pipeline.loop.tables).reconcile()

        def newest() -> DriverRecord:
            records = wiring.own_reconciler(pipeline.spec, pipeline.loop.tables).status()
            return max(records, key=lambda record: record.generation)

        broker.away()
        until(lambda: newest().state is DriverState.FAILED, "the query gives up")
        assert "TimeoutException" in str(newest().error)
        (tried,) = reconcile()
        assert tried.outcome is Outcome.FAILED
        broker.back()
        until(reconcile, "its turn comes again")
        assert newest().state is DriverState.RUNNING
        broker.admin.delete_topics([TOPIC])[TOPIC].result()
        until(lambda: newest().state is DriverState.FAILED, "the query finds its topic gone")
        errors = [change.error for change in reconcile() if change.outcome is Outcome.CIRCUIT_OPEN]
        assert errors and all("UnknownTopicOrPartitionException" in str(error) for error in errors)
