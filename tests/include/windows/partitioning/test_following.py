"""A map that changes while a query runs, on Spark: deployed, unfit, unreadable, or the query's own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from millrace.model.errors import MillraceError
from millrace.model.key_map import HOT_KEYS, HotKey, KeyMap
from millrace.model.partitioning import expanded, hashed_sketch, shortened, skew
from millrace.model.waterfill import waterfill
from millrace.windows import driver_link
from millrace.windows.partitioning import followed, spread
from millrace.windows.partitioning.following import MOST_TIME

pytestmark = pytest.mark.spark


@dataclass
class Link:
    """What Millrace would deploy, and what it is told."""

    deployed: KeyMap | None = None
    slots: int | None = 4
    error: MillraceError | None = None
    told: list[tuple[Any, ...]] = field(default_factory=list)

    def newest(self, name: str) -> tuple[KeyMap | None, int | None]:
        if self.error is not None:
            raise self.error
        return self.deployed, self.slots

    def report(
        self, name: str, columns: Sequence[str], workers: int, revision: int | None, rows: int, hot: Sequence[HotKey]
    ) -> None:
        self.told.append((name, tuple(columns), workers, revision, rows, tuple(hot)))

    def plan(self, workers: int, revision: int, columns: Sequence[str] = ("area",)) -> None:
        """Deploy the best map for what was last reported."""
        _, _, _, _, rows, hot = self.told[-1]
        of = hashed_sketch(rows, {key.key: float(key.rows) for key in hot})
        self.deployed = shortened(waterfill(of, workers, 3), revision, columns)


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link()
    driver_link.connect(made)
    yield made
    driver_link.connect(None)


class Clock:
    """A clock on which each look takes a second."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def rows(spark: Any, hot: str = "north", n: int = 12_000) -> Any:
    """Return rows of which a half is of one area, a fifth has none, and the others are of 300 areas."""
    from pyspark.sql import functions as sf

    turn = sf.col("id") % 10
    cold = sf.concat(sf.lit("area "), sf.pmod(sf.xxhash64("id"), sf.lit(300)).cast("string"))
    return spark.range(0, n, 1, 3).select(sf.when(turn < 5, hot).when(turn > 6, cold).alias("area"), "id")


def sizes(frame: Any) -> list[int]:
    from pyspark.sql import functions as sf

    return sorted(r["count"] for r in frame.groupBy(sf.spark_partition_id()).count().collect())


def assert_even(found: Any, workers: int, n: int = 12_000) -> None:
    counted = sizes(found)
    assert len(counted) == workers and sum(counted) == n and counted[-1] < 1.15 * n / workers, counted


def test_query_without_millrace_plans_a_map_of_its_own_for_all_slots(spark: Any) -> None:
    data = rows(spark)
    found = spread(data, "area", by=followed("areas"))
    assert found.columns == data.columns and sorted(found.collect(), key=str) == sorted(data.collect(), key=str)
    assert_even(found, spark.sparkContext.defaultParallelism)
    assert_even(spread(data, "area", by=followed("areas", 3)), 3)
    assert_even(spread(data.withColumn("city", data["id"] % 2), ["area", "city"], by=followed("both", 3)), 3)


def test_batch_reports_its_keys_and_follows_the_newest_map(spark: Any, link: Link) -> None:
    areas = followed("areas")
    assert_even(spread(rows(spark), "area", by=areas), 4)
    (name, columns, workers, revision, counted, hot) = link.told[0]
    assert (name, columns, workers, revision, counted, len(hot)) == ("areas", ("area",), 4, None, 12_000, HOT_KEYS)
    assert [(key.label, key.rows) for key in hot[:2]] == [("north", 6000), ("", 2400)]
    link.plan(4, 7)
    south = rows(spark, "south")
    assert_even(spread(rows(spark), "area", by=areas), 4)
    assert sizes(spread(south, "area", by=areas))[-1] > 6000  # this map does not know the south
    assert link.deployed is not None and areas.newest(south, ["area"]).hot == expanded(link.deployed).hot


def test_number_of_workers_follows_the_slots(spark: Any, link: Link) -> None:
    areas = followed("areas")
    spread(rows(spark), "area", by=areas)
    link.slots = 6
    found = spread(rows(spark), "area", by=areas)  # before a map for six is deployed
    assert_even(found, 6)
    link.plan(6, 3)
    assert_even(spread(rows(spark), "area", by=areas), 6)
    assert_even(spread(rows(spark), "area", by=followed("areas", 2)), 2)


def test_driver_that_starts_with_other_slots_begins_with_the_deployed_map(spark: Any, link: Link) -> None:
    spread(rows(spark), "area", by=followed("areas"))
    link.plan(4, 3)
    assert link.deployed is not None
    link.deployed, link.slots = replace(link.deployed, moved=dict.fromkeys(range(300), 3), hot={}), 5
    made = followed("areas").newest(rows(spark), ["area"])
    of = hashed_sketch(12_000, {key.key: float(key.rows) for key in link.told[-1][-1]})
    assert made.workers == 5 and skew(made, of) < 1.1
    assert (made.groups[:300] == 3).mean() > 0.9, "these groups were moved, and need not move again"


@pytest.mark.parametrize(("wrong", "why"), [({"columns": ("city",)}, "it is for city on 4"), ({"workers": 9}, "on 9")])
def test_map_that_does_not_fit_is_not_followed_and_the_log_says_so_once(
    wrong: dict[str, Any], why: str, spark: Any, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    areas = followed("areas")
    spread(rows(spark), "area", by=areas)
    link.plan(4, 3)
    kept = areas.newest(rows(spark), ["area"])
    assert link.deployed is not None
    link.deployed = replace(link.deployed, revision=4, **wrong)
    with caplog.at_level(logging.WARNING):
        assert [areas.newest(rows(spark), ["area"]) is kept for _ in range(3)] == [True] * 3
    (told,) = [r.getMessage() for r in caplog.records if "areas" in r.getMessage()]
    assert "does not follow map 4" in told and why in told and "the query has area on 4" in told


def test_map_is_kept_while_the_lake_cannot_be_read(spark: Any, link: Link, caplog: pytest.LogCaptureFixture) -> None:
    areas = followed("areas")
    link.error = MillraceError("lake", "far", "a lake", "Mount it.")
    assert_even(spread(rows(spark), "area", by=areas), spark.sparkContext.defaultParallelism)
    link.error = None
    spread(rows(spark), "area", by=areas)
    link.plan(4, 3)
    kept = areas.newest(rows(spark), ["area"])
    link.error = MillraceError("lake", "far", "a lake", "Mount it.")
    assert areas.newest(rows(spark), ["area"]) is kept and areas.newest(rows(spark), ["area"]) is kept
    assert [r.getMessage() for r in caplog.records if "areas keeps its map: lake: got 'far'" in r.getMessage()]
    link.error, link.deployed = None, None  # rolled back to a version without a map
    assert areas.newest(rows(spark), ["area"]) is not kept


def test_samples_take_a_small_part_of_the_time(spark: Any, link: Link) -> None:
    areas = followed("areas")
    areas._now = clock = Clock()
    for _ in range(4):
        areas.newest(rows(spark), ["area"])
    assert len(link.told) == 2
    clock.now += 1.0 / MOST_TIME
    for _ in range(3):
        areas.newest(rows(spark), ["area"])
    assert len(link.told) == 3


def test_first_batch_without_rows_leaves_the_plan_to_the_next(spark: Any, link: Link) -> None:
    areas, data = followed("areas"), rows(spark)
    areas._now = clock = Clock()
    assert spread(data.where("false"), "area", by=areas).collect() == [] and link.told == []
    assert sum(sizes(spread(data, "area", by=areas))) == 12_000
    clock.now += 1.0 / MOST_TIME
    assert_even(spread(data, "area", by=areas), 4)


def test_keys_of_many_types_are_counted(spark: Any, link: Link) -> None:
    from pyspark.sql import functions as sf

    data = spark.range(1000).select(
        sf.when(sf.col("id") < 500, float("nan")).otherwise(-0.0).alias("number"),
        sf.timestamp_seconds(sf.col("id") % 2).alias("at"),
        (sf.col("id") % 2).cast("string").cast("binary").alias("bytes"),
        sf.lit(None).cast("decimal(9,2)").alias("nothing"),
        "id",
    )
    assert_even(spread(data, ["number", "at", "bytes", "nothing"], by=followed("all")), 4, 1000)
    assert sorted(key.rows for key in link.told[0][-1]) == [250] * 4


def test_micro_batches_of_a_running_query_follow_a_new_map(spark: Any, link: Link, tmp_path: Path) -> None:
    areas, found = followed("areas"), []
    folder, landing = tmp_path / "source", tmp_path / "landing"
    for number in range(3):
        rows(spark).write.parquet(str(landing / str(number)))
    stream = spark.readStream.schema(spark.read.parquet(str(landing / "0")).schema).option("maxFilesPerTrigger", 3)

    def measure(batch: Any, number: int) -> None:
        found.append(sizes(spread(batch, "area", by=areas)))
        if number == 1:
            link.plan(2, 3)
            link.slots = 2

    query = stream.parquet(str(landing / "*")).writeStream.foreachBatch(measure).trigger(availableNow=True)
    query.option("checkpointLocation", str(folder)).start().awaitTermination()
    assert [len(counted) for counted in found] == [4, 4, 2]
    with pytest.raises(MillraceError, match="foreachBatch"):
        spread(stream.parquet(str(landing / "*")), "area", by=areas)


@pytest.mark.parametrize(
    ("arguments", "key"), [(("",), "name"), (("areas", 0), "workers"), (("areas", True), "workers")]
)
def test_name_and_workers_out_of_range_are_errors(arguments: tuple[Any, ...], key: str) -> None:
    with pytest.raises(MillraceError) as caught:
        followed(*arguments)
    assert caught.value.key == key
