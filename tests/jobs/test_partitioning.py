"""The example ``traffic`` under Millrace: its map of areas follows the cars, decided and without a restart."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from millrace.lake.source_tables import SourceTable, is_table, query
from millrace.lake.store import Lake
from millrace.local.feeds.fixes import SCHEMA, TRANSACTION, Fixes
from millrace.model.deployment import PARTITION_MAP
from millrace.places import PACKAGE
from tests.include.runtime.telemetry.arriving import repeating
from tests.jobs.adapting import adapting
from tests.jobs.driving import until

pytestmark = pytest.mark.spark

FIXES = Fixes(seed=2, rows_per_s=60, shift_s=45)
SIZE_S, SLIDE_S = 300, 60
YAML = """\
name: traffic
script: {scripts}/traffic.py
args: ["--source={folder}/fixes", "--results={folder}/queues", "--checkpoint={folder}/checkpoint", "--wait-ms=0.1"]
partitioning: {{options: {{method: {method}, half_life_s: 10}}}}
submit:
  master: local
  conf: {{spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}}
slots: {{min: 3, max: 3, start: 3}}
max_parallelism: 2
mode: auto
period_s: 5
quality: {{max_age_s: 600, max_gap_s: 600}}
ready_deadline_s: 600
"""


def expected(source: Path) -> Counter[tuple[datetime, str]]:
    """Return the cars of each window's start and area, without Spark."""
    cars: Counter[tuple[datetime, str]] = Counter()
    rows = query("select at, area, count(*) as n from f group by at, area", f=source)
    for row in rows.to_pylist():
        second = int(row["at"].timestamp())
        last = datetime.fromtimestamp(second - second % SLIDE_S, row["at"].tzinfo)
        for back in range(SIZE_S // SLIDE_S):
            cars[last - timedelta(seconds=back * SLIDE_S), row["area"]] += row["n"]
    return cars


def found(results: Path) -> Counter[tuple[datetime, str]]:
    rows = query("select window_start, area, sum(cars) as n from q group by window_start, area", q=results)
    return Counter({(row["window_start"], row["area"]): row["n"] for row in rows.to_pylist()})


@pytest.mark.slow
@pytest.mark.parametrize(("method", "least"), [("waterfill", 2), ("paper_hash", 1)])
def test_map_follows_the_cars_while_the_query_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, least: int
) -> None:
    """Maps of the published method leave more skew, so a second one may not be worth the change."""
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    source, results = tmp_path / "fixes", tmp_path / "queues"
    table = SourceTable(source, SCHEMA, FIXES.content)
    text = YAML.format(scripts=PACKAGE / "pipelines" / "examples" / "traffic", folder=tmp_path, method=method)
    lake = Lake(tmp_path / "lake")

    def followed() -> list[int | None]:
        sql = "select revision from keys order by time"
        return [row["revision"] for row in lake.rows(sql, "telemetry/keys")]

    with adapting(tmp_path / "traffic.yaml", text) as pipeline, ExitStack() as feed:
        feed.enter_context(repeating(lambda n: table.append(FIXES.second(n), 3, TRANSACTION, n), 1.0))
        pipeline.until(lambda: len({revision for revision in followed() if revision}) >= least)
        feed.close()
        until(lambda: is_table(results) and found(results) == expected(source), "every car in all its windows, once")
        maps = [c for d in pipeline.decisions for c in d.changes if c.field == PARTITION_MAP]
        print(*(d.sentence for d in pipeline.decisions), sep="\n")
        assert len(maps) >= least and pipeline.deployment().partitioning["areas"].workers == 3
        assert pipeline.changes == [], "nothing was restarted"
