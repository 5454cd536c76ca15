from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.lake.row_codec import (
    app_row,
    batch_from_row,
    batch_row,
    decision_from_row,
    decision_row,
    key_sample_from_row,
    key_sample_row,
    observation_from_row,
    observation_row,
    partition_flow_from_row,
    partition_flow_row,
    partition_run_from_row,
    partition_run_row,
    reconfiguration_from_row,
    reconfiguration_row,
)
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.model.key_map import HotKey, KeySample
from millrace.model.signals import Observation, Signals
from millrace.model.telemetry import AppMetrics, BatchMetrics, OperatorBatch, PartitionFlow, PartitionRun

small = st.integers(0, 2**31 - 1)
long = st.integers(0, 2**60)
ratio = st.floats(0, 1e12)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6)
moment = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


operators = st.builds(
    OperatorBatch, id=text, name=text, tasks=maybe(small), p=maybe(small), rows_in=maybe(long), rows_out=maybe(long),
    useful_s=maybe(ratio),
)  # fmt: skip
batches = st.builds(
    BatchMetrics, pipeline=text, app=text, query=text, time=moment, generation=long, epoch=long, batch_id=long,
    slots=small, rows_in=long, rows_out=maybe(long), durations_ms=st.dictionaries(text, long, max_size=2),
    lag=st.dictionaries(text, long, max_size=2),
    sources=st.dictionaries(text, long, max_size=2), sink=text,
    backlog_rows=maybe(long), source_end=maybe(long), state_rows=maybe(long), state_bytes=maybe(long),
    host_cpu_other=maybe(ratio), operators=st.lists(operators, max_size=2).map(tuple),
)  # fmt: skip
partition_runs = st.builds(
    PartitionRun, pipeline=text, app=text, generation=long, version=long, query=text, operator=small,
    operators=st.lists(small, min_size=1, max_size=3).map(tuple), partition=small, time=moment, batch_id=long,
    executor=text, rows_in=long, run_s=ratio, local_bytes=long, remote_bytes=long, state_bytes=maybe(long),
    memory_bytes=maybe(long),
)  # fmt: skip
partition_flows = st.builds(
    PartitionFlow, pipeline=text, app=text, generation=long, query=text, from_operator=small, from_partition=small,
    to_operator=small, to_partition=small, time=moment, batch_id=long, bytes=long,
)  # fmt: skip
key_samples = st.builds(
    KeySample, pipeline=text, app=text, generation=long, time=moment, name=text,
    columns=st.lists(text, min_size=1, max_size=3).map(tuple), workers=small, revision=maybe(long), rows=long,
    hot=st.lists(st.builds(HotKey, st.integers(-(2**63), 2**63 - 1), text, long), max_size=3).map(tuple),
)  # fmt: skip
reconfigurations = st.builds(
    Reconfiguration, pipeline=text, app=text, decision_id=maybe(text), tier=text, from_version=maybe(long),
    to_version=maybe(long), generation=maybe(long), started=moment, ended=maybe(moment), downtime_s=maybe(ratio),
    outcome=st.sampled_from(Outcome), error=maybe(text), achieved=st.dictionaries(text, ratio, max_size=2),
)  # fmt: skip
observations = st.builds(
    Observation, operator=text, parallelism=small, throughput=ratio, noise=ratio, batches=long, time=moment
)
decisions = st.builds(
    Decision, decision_id=text, pipeline=text, time=moment, action=st.sampled_from(Action), reason_code=text,
    sentence=text, signals=maybe(st.builds(Signals, pipeline=text, since=moment, until=moment, telemetry_version=long,
    deployment_version=long, apps=st.just(()), observations=st.lists(observations, max_size=1).map(tuple),
    )), base_version=maybe(long), predicted=st.dictionaries(text, ratio, max_size=2), proposals=st.just(()),
    guards=st.just(()), target=st.none(), config_hash=text,
    cursor_version=maybe(long), cursor_until=maybe(moment),
)  # fmt: skip


CASES = {
    "telemetry/batches": (batches, batch_row, batch_from_row),
    "telemetry/partitions": (partition_runs, partition_run_row, partition_run_from_row),
    "telemetry/flows": (partition_flows, partition_flow_row, partition_flow_from_row),
    "telemetry/keys": (key_samples, key_sample_row, key_sample_from_row),
    "control/reconfigurations": (reconfigurations, reconfiguration_row, reconfiguration_from_row),
    "control/observations": (observations, lambda o: observation_row("delays", o), observation_from_row),
    "control/decisions": (decisions, decision_row, decision_from_row),
}


@pytest.mark.parametrize("table", CASES)
def test_rows_when_written_and_read_back_then_are_the_same_contracts(
    table: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    strategy, to_row, from_row = CASES[table]
    name = table.rsplit("/", 1)[-1]

    @given(st.lists(strategy, min_size=1, max_size=4))
    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def check(values: list[Any]) -> None:
        lake = Lake(tmp_path_factory.mktemp("lake"))
        lake.append(table, [to_row(v) for v in values])
        found = [from_row(row) for row in lake.rows(f"select * from {name}", table)]
        assert sorted(found, key=repr) == sorted(values, key=repr)

    check()


def test_app_row_when_written_then_has_every_column(tmp_path: Path) -> None:
    lake, time = Lake(tmp_path), datetime(2026, 1, 1, 23, 59, 59, 999999, tzinfo=UTC)
    lake.append("telemetry/apps", [app_row(AppMetrics("delays", "delays", time, 3, None, 10**9, 1.5, "far"))])
    (found,) = lake.rows("select * from apps", "telemetry/apps")
    assert found == {
        "pipeline": "delays", "app": "delays", "time": time, "generation": 3, "cpu_ratio": None,
        "rss_bytes": 10**9, "up_s": 1.5, "host": "far", "attached": None, "date": time.date(),
    }  # fmt: skip
