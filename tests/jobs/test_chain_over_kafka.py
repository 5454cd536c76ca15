"""Two plain scripts that a Kafka topic joins: both follow the rate at the first, whose driver crashes in a change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from signal import SIGKILL

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from millrace import wiring
from millrace.environment.jars import CONNECTORS
from millrace.lake.source_tables import SourceTable
from millrace.local.feeds.kafka_broker import KafkaBroker, stop
from millrace.local.feeds.kafka_topic import make_topic
from millrace.local.stack.setup import ensure_jars
from millrace.model.decision import LIVE, RESTART, Action, Outcome, Reconfiguration
from millrace.run_folder import driver_records
from millrace.run_folder.discovery import LiveDriver, find
from millrace.run_folder.driver_records import DriverRecord, DriverState
from tests.include.runtime.telemetry.arriving import SCHEMA, arriving, table
from tests.jobs.adapting import Adapting, adapting, embedded_cluster
from tests.jobs.driving import SCRIPTS, until
from tests.jobs.totals import HIGH, LOW, expected_totals, total

pytestmark = pytest.mark.platform

TOPIC, PARTITIONS = "answers", 2
CORES, BUDGET = 2, 14
EXECUTOR = "CoarseGrainedExecutorBackend"
YAML = """\
name: chain
apps:
  first: {{script: {scripts}/to_topic.py, args: [{folder}/in, "{servers}", {topic}, {folder}/sent, "0.02"]}}
  second:
    script: {scripts}/from_topic.py
    args: ["{servers}", {topic}, {folder}/totals.json, {folder}/counted, "0.02"]
submit: {{connectors: [kafka]}}
slots: {{min: 2, max: 8, start: 2}}
executor: {{cores: {cores}, memory_mb: 512}}
objective: {{target_utilisation: 0.75, max_lag_s: 120}}
budget: {{slots: {budget}}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
tuner: {{options: {{change_s: 0, contingencies: false}}}}
ready_deadline_s: 600
"""
PATIENCE_S = 5.0
"""How long a reconcile waits for a start, as in ``dags/reconcile.py``; a later one completes it."""


def test_chain_over_a_topic_loses_nothing_if_a_driver_dies_in_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "totals.json"
    with broker(tmp_path / "kafka") as servers, embedded_cluster(tmp_path, monkeypatch), ExitStack() as feed:
        SourceTable(tmp_path / "in", SCHEMA, "test")
        make_topic(servers, TOPIC, PARTITIONS)
        arrivals = feed.enter_context(arriving(table(tmp_path / "in"), LOW / 2))
        text = YAML.format(scripts=SCRIPTS, folder=tmp_path, servers=servers, topic=TOPIC, cores=CORES, budget=BUDGET)
        with adapting(tmp_path / "chain.yaml", text) as pipeline:
            follow(pipeline, lambda: knows_both(pipeline))
            with ThreadPoolExecutor() as pool:
                crash = pool.submit(crash_in_a_change, pipeline, "first", lambda: sent(tmp_path / "sent", servers))
                arrivals.rows_per_s = HIGH
                follow(pipeline, crash.done)
                during = crash.result()
            follow(pipeline, lambda: runs(pipeline, "first", generation=2))
            follow(pipeline, lambda: all(app.slots > 2 for app in pipeline.deployment().apps.values()))
            arrivals.rows_per_s = LOW / 2
            follow(pipeline, lambda: all(app.slots == 2 for app in pipeline.deployment().apps.values()))
            feed.close()
            rows = arrivals.rows[-1]
            until(lambda: total(results) >= rows, f"{rows} rows in the results")
            records = {app: newest(pipeline, app) for app in pipeline.spec.apps}
            changes = pipeline.loop.tables.reconfigurations.recent("chain", limit=1000)
        repeated = messages(servers) - rows

    print(*(f"{d.time:%H:%M:%S} {d.sentence}" for d in pipeline.decisions if d.action is not Action.HOLD), sep="\n")
    print(*sorted(changes, key=lambda change: change.started), sep="\n")
    print(f"{rows} rows arrived, {repeated} were sent again")
    targets = [d.target for d in pipeline.decisions if d.action is Action.APPLY and d.target is not None]
    assert all(target.slots <= BUDGET for target in targets)
    linked = {(edge.producer, edge.consumer) for d in pipeline.decisions if d.signals for edge in d.signals.edges}
    assert linked == {("first", "second")}
    assert {app: record.generation for app, record in records.items()} == {"first": 2, "second": 1}
    (killed,) = (change for change in changes if change.started == during.started and change.app == "first")
    assert (killed.outcome, killed.error) == (Outcome.FAILED, "the driver ended during the change")
    restarts = [(c.app, c.generation, c.outcome) for c in changes if c.tier == RESTART and c.generation != 1]
    assert restarts == [("first", 2, Outcome.READY)]
    assert json.loads(results.read_text()) == expected_totals(rows)


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Run a broker; yield its address."""
    ensure_jars(CONNECTORS["kafka"])
    kafka = KafkaBroker.make(folder)
    process = kafka.start()
    try:
        yield kafka.address
    finally:
        stop(process)


def messages(servers: str) -> int:
    """Return the number of messages in the topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "test", "log_level": 0})
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, number)) for number in range(PARTITIONS)]
    finally:
        consumer.close()
    return sum(high - low for low, high in ends)


def follow(pipeline: Adapting, reached: Callable[[], bool]) -> None:
    """Evaluate until a condition, and reconcile in between, as Airflow does every minute and after a driver's end."""

    def reconciled() -> bool:
        wiring.own_reconciler(pipeline.spec, pipeline.loop.tables).reconcile(wait_s=0, patience_s=PATIENCE_S)
        return reached()

    pipeline.until(reconciled)


def knows_both(pipeline: Adapting) -> bool:
    signals = pipeline.decisions[-1].signals if pipeline.decisions else None
    settled = signals.settled if signals else ()
    return len(settled) == 2 and all(app.capacity is not None for app in settled)


def newest(pipeline: Adapting, app: str) -> DriverRecord:
    run_dir = wiring.drivers_here()
    assert run_dir is not None
    record = driver_records.newest(run_dir, pipeline.spec.name, app)
    assert record is not None
    return record


def runs(pipeline: Adapting, app: str, generation: int) -> bool:
    record = newest(pipeline, app)
    return (record.generation, record.state) == (generation, DriverState.RUNNING) and record.ready_at is not None


def sent(checkpoint: Path, servers: str) -> tuple[int, int]:
    """Return the number of batches that the first app has committed, and of messages in the topic."""
    return len(list((checkpoint / "commits").glob("[0-9]*"))), messages(servers)


def crash_in_a_change(pipeline: Adapting, app: str, progress: Callable[[], tuple[int, int]]) -> Reconfiguration:
    """Kill all processes of an app's driver while it waits for new executors; return that change.

    If possible, the running batch has sent some of its rows by then, which will be sent again.
    """
    run_dir, tables = wiring.drivers_here(), wiring.control_tables()
    assert run_dir is not None
    driver = next(d for d in find(run_dir, pipeline.spec.name) if d.arguments.app == app)
    found: list[Reconfiguration] = []
    earlier: dict[int, int] = {}

    def waits_for_executors() -> bool:
        if len(executors(driver)) * CORES <= newest(pipeline, app).slots:
            return False
        changes = tables.reconfigurations.recent(pipeline.spec.name)
        found[:] = [change for change in changes if (change.app, change.tier, change.ended) == (app, LIVE, None)]
        return bool(found)

    def sends_or_is_almost_ready() -> bool:
        batches, rows = progress()
        # executors that run Python are being prepared, after which the change is over
        return rows > earlier.setdefault(batches, rows) or all(one.children() for one in executors(driver))

    until(waits_for_executors, f"a change of {app}'s executors")
    until(sends_or_is_almost_ready, "a moment for the crash")
    for process in driver.processes:
        process.signal(SIGKILL)
    return found[0]


def executors(driver: LiveDriver) -> list[psutil.Process]:
    """Return the executors of a driver, registered or not: their command lines contain a port of the driver."""
    ports = {
        str(listening.laddr.port)
        for process in driver.processes
        for listening in psutil.Process(process.pid).net_connections("tcp")
        if listening.status == psutil.CONN_LISTEN
    }
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if any(EXECUTOR in word for word in words) and _port(words) in ports:
                found.append(process)
    return found


def _port(words: list[str]) -> str:
    """Return the port of the driver that an executor's command line names."""
    return words[words.index("--driver-url") + 1].rpartition(":")[2]
