"""A map of keys to workers that a running query follows, from one micro-batch to the next.

Each batch uses the newest map that Millrace has deployed for these keys, and reports a sample of them, from which the
next map is planned. Without Millrace, or with a deployed map that does not fit, the query uses a map of its own.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from millrace.model.errors import MillraceError
from millrace.model.key_map import HOT_KEYS, HotKey, KeyMap
from millrace.model.partitioning import PartitionMap, Sketch, expanded, hashed_sketch, hot_keys
from millrace.model.waterfill import waterfill
from millrace.windows.driver_link import connected
from millrace.windows.partitioning.sketch import check_count, hashed, quoted

LOG = logging.getLogger(__name__)
SAMPLE_ROWS = 50_000
"""Rows that a sample aims at. A key with a hundredth of the rows is then counted with an error of 4 %."""
FEW_ROWS = 5_000
"""A first sample with fewer rows is of a small batch, and is taken again from all of its rows."""
FIRST_SHARE = 0.1
"""Share of the first batch's rows that is sampled; later, the number of rows is known."""
MOST_TIME = 0.03
"""Share of the time that samples may take, apart from the first. After a long one, the next batches have none."""
TRACKED = 10_000
"""Keys that Spark counts at once. It over-counts a key by less than 1 / 3000 of the rows."""
LABEL = 40
OLDER = 0.5
"""Weight of the query's older samples against its newest, for its own map."""


@dataclass
class Followed:
    """The keys by which one place of a script spreads the rows of each micro-batch, and the map in use.

    Attributes:
        name: Name of the keys, unique in the script.
        workers: Fixed number of workers; None for the app's slots.
    """

    name: str
    workers: int | None = None
    _now: Callable[[], float] = time.monotonic
    _due: float = -math.inf
    _rows: float | None = None
    _seen: Sketch | None = None
    _columns: tuple[str, ...] = ()
    _deployed: KeyMap | None = None
    _map: PartitionMap | None = None
    _told: set[str] = field(default_factory=set)

    def newest(self, rows: DataFrame, names: Sequence[str]) -> PartitionMap:
        """Return the map for a micro-batch, whose hot keys are hashes, and report a sample of its keys if one is due.

        Args:
            rows: The micro-batch.
            names: Columns of the keys.

        Raises:
            MillraceError: If the rows are a stream.
        """
        if rows.isStreaming:
            remedy = "Call this on each batch in foreachBatch, or pass a fixed map: by=plan(sketch(...), workers)."
            raise MillraceError("rows", "a stream", "a batch, whose map can change", remedy)
        if self._columns != tuple(names):
            self._columns, self._map, self._seen, self._deployed = tuple(names), None, None, None
        workers = self._follow(rows)
        counted = self._sampled(rows, names)
        if self._map is None or self._map.workers != workers:
            of = self._seen or hashed_sketch(0.0, {})
            fits = self._map is not None and len(self._map.groups) == len(of.groups)
            own = waterfill(of, workers, hot_keys(of, workers), self._map if fits else None)
            if self._seen is None:
                return own  # there were no rows to plan by
            self._map, self._deployed = own, None
        link = connected()
        if link is not None and counted is not None:
            revision = None if self._deployed is None else self._deployed.revision
            link.report(self.name, names, workers, revision, *counted)
        return self._map

    def _follow(self, rows: DataFrame) -> int:
        """Take the deployed map if it fits, and return the number of workers."""
        link, parallelism = connected(), rows.sparkSession.sparkContext.defaultParallelism
        if link is None:
            return self.workers or parallelism
        try:
            deployed, slots = link.newest(self.name)
        except MillraceError as error:
            self._tell(f"{self.name} keeps its map: {error}")
            return self.workers or (self._map.workers if self._map else parallelism)
        workers = self.workers or slots or parallelism
        if deployed is None and self._deployed is not None:
            self._map, self._deployed = None, None  # rolled back to a version without a map
        elif deployed is not None and deployed != self._deployed:
            self._take(deployed, workers)
        return workers

    def _take(self, deployed: KeyMap, workers: int) -> None:
        """Follow a deployed map, or say why not."""
        if (deployed.columns, deployed.workers) == (self._columns, workers):
            self._map, self._deployed = expanded(deployed), deployed
            return
        is_for = f"{', '.join(deployed.columns)} on {deployed.workers} workers"
        here = f"{', '.join(self._columns)} on {workers}"
        self._tell(f"{self.name} does not follow map {deployed.revision}: it is for {is_for}, the query has {here}")
        if self._map is None and deployed.columns == self._columns:
            self._map = expanded(deployed)  # its own map for the other number of workers starts from this one

    def _sampled(self, rows: DataFrame, names: Sequence[str]) -> tuple[int, list[HotKey]] | None:
        """Return the rows of a sample and the most frequent keys among them; None if no sample is due."""
        started = self._now()
        if started < self._due:
            return None
        share = FIRST_SHARE if self._rows is None else min(1.0, SAMPLE_ROWS / max(self._rows, 1.0))
        counted, hot = _count(rows, names, share)
        if self._rows is None and counted < FEW_ROWS:
            share = 1.0
            counted, hot = _count(rows, names, share)
        if self._seen is not None or not counted:  # in the first with rows, the JVM still compiles
            ended = self._now()
            self._due = ended + (ended - started) / MOST_TIME
        if not counted:
            return None
        self._rows = counted / share
        newest = hashed_sketch(counted, {of.key: float(of.rows) for of in hot})
        self._seen = newest if self._seen is None else self._seen.scaled(OLDER).merge(newest)
        return counted, hot

    def _tell(self, cause: str) -> None:
        """Log a cause once."""
        if cause not in self._told:
            self._told.add(cause)
            LOG.warning("%s", cause)


def followed(name: str, workers: int | None = None) -> Followed:
    """Return a map for ``spread`` or ``sliding`` that changes while a query runs; make it once, outside foreachBatch.

    Args:
        name: Name of the keys, unique in the script: the pipeline's Deployment has a map for each name.
        workers: How many partitions to make; by default as many as the app has slots.

    Raises:
        MillraceError: If the name is empty, or the number is out of range.
    """
    if not name:
        raise MillraceError("name", name, "a name", "Name the keys, such as followed('areas').")
    if workers is not None:
        check_count("workers", workers)
    return Followed(name, workers)


def _count(rows: DataFrame, names: Sequence[str], share: float) -> tuple[int, list[HotKey]]:
    """Return the number of rows in a sample, and its most frequent keys."""
    label = sf.substring(sf.concat_ws(", ", *(quoted(name).cast("string") for name in names)), 1, LABEL)
    item = sf.concat(hashed(names).cast("string"), sf.lit(":"), label)
    # one job, and no shuffle of the keys
    top = sf.call_function("approx_top_k", item, sf.lit(HOT_KEYS), sf.lit(TRACKED))
    sample = rows if share >= 1 else rows.sample(share)
    (found,) = sample.agg(sf.count("*").alias("rows"), top.alias("top")).collect()
    hot = []
    for entry in found["top"] or ():
        key, _, text = entry["item"].partition(":")
        hot.append(HotKey(int(key), text, int(entry["count"])))
    # estimates of many keys may add up to a little more than there are rows
    return max(int(found["rows"]), sum(of.rows for of in hot)), hot
