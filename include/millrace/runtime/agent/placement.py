"""Where the state partitions of running queries are, and where their next batch is to find them.

A stateful task prefers the executor that Spark's StateStoreCoordinator names for its store. Naming another executor
moves the partition with the next batch: the executor loads the state from the checkpoint, and Spark's maintenance
unloads the old copy. Tasks also report themselves, so a name that is set in the middle of a batch may be overwritten.
Set it after a batch and compare after the next. Spark itself moves no partition to an added executor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.runtime.agent.allocation import Executor
from millrace.runtime.triggers import ran_batch

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
JOIN_STORES = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
"""Stores of a stream-stream join's partition, in state formats with one store per side and kind."""


@dataclass(frozen=True)
class Partition:
    """One partition of a stateful operator.

    Attributes:
        query: Name of the query, or its id if it has no name.
        root: The checkpoint's state folder.
        run: Id of the query's run.
        operator: Spark's number of the operator.
        number: Number of the partition.
        stores: Names of its state stores.
    """

    query: str
    root: str
    run: str
    operator: int
    number: int
    stores: tuple[str, ...]


class StatePlacement:
    """Assigns state partitions to executors.

    Args:
        spark: The session.
    """

    def __init__(self, spark: Any) -> None:
        self._jvm = spark.sparkContext._jvm
        manager = spark._jsparkSession.sessionState().streamingQueryManager()
        self._coordinator = manager.stateStoreCoordinator()
        self._state = self._jvm.org.apache.spark.sql.execution.streaming.state
        self._nothing = self._jvm.PythonUtils.toSeq([])
        self._hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        self._partitions: dict[str, tuple[Partition, ...]] = {}
        self._providers: dict[tuple[Partition, str], Any] = {}

    def partitions(self, query: Any) -> tuple[Partition, ...]:
        """Return the state partitions of a running query, from its checkpoint; none before its first batch."""
        execution = query._jsq.streamingQuery()
        run = str(execution.runId().toString())
        if run not in self._partitions:
            progress = execution.lastProgress()
            counts = [] if progress is None else [int(o.numShufflePartitions()) for o in progress.stateOperators()]
            # before a run's first batch, a trigger without rows shows no operators either
            expected = sum(counts) if counts or (progress is not None and ran_batch(progress)) else None
            # a checkpoint that once had more partitions keeps their folders
            count = max(counts) if counts else int(execution.sparkSession().conf().get(SHUFFLE_PARTITIONS))
            root, name = (
                f"{execution.resolvedCheckpointRoot()}/state",
                execution.name() or str(execution.id().toString()),
            )
            listed = () if expected == 0 else tuple(self._listed(str(name), root, run, count))
            if expected is None or len(listed) < expected:
                return listed
            self._partitions[run] = listed  # fixed while the query runs
        return self._partitions[run]

    def batches(self, queries: Iterable[Any]) -> dict[str, int]:
        """Return the last finished batch of each running query, by run, and drop what is kept of other runs."""
        found = {}
        for query in queries:
            execution = query._jsq.streamingQuery()
            progress = execution.lastProgress()
            newest = -1 if progress is None else int(progress.batchId()) - (not ran_batch(progress))
            found[str(execution.runId().toString())] = newest
        if self.runs() - found.keys():  # a script may run a query a thousand times
            self._partitions = {run: kept for run, kept in self._partitions.items() if run in found}
            self._providers = {key: kept for key, kept in self._providers.items() if key[0].run in found}
        return found

    def runs(self) -> set[str]:
        """Return the query runs of which something is kept."""
        return {*self._partitions, *(partition.run for partition, _ in self._providers)}

    def executor_of(self, partition: Partition) -> str | None:
        """Return the id of the executor that has a partition's state; None if no executor has it."""
        location = self._coordinator.getLocation(self._provider(partition, partition.stores[0]))
        # "executor_<host>_<id>"
        return str(location.get()).rsplit("_", 1)[1] if location.isDefined() else None

    def name(self, partition: Partition, executor: Executor) -> None:
        """Let the next batch run a partition on an executor."""
        for store in partition.stores:
            provider = self._provider(partition, store)
            self._coordinator.reportActiveInstance(provider, executor.host, executor.id, self._nothing)

    def _provider(self, partition: Partition, store: str) -> Any:
        key = (partition, store)
        if key not in self._providers:
            store_id = self._state.StateStoreId(partition.root, partition.operator, partition.number, store)
            run = self._jvm.java.util.UUID.fromString(partition.run)
            self._providers[key] = self._state.StateStoreProviderId(store_id, run)
        return self._providers[key]

    def _listed(self, query: str, root: str, run: str, count: int) -> Iterator[Partition]:
        for operator in self._folders(root):
            for number in (n for n in self._folders(f"{root}/{operator}") if int(n) < count):
                stores = set(self._names(f"{root}/{operator}/{number}"))
                named = tuple(store for store in JOIN_STORES if store in stores)
                yield Partition(query, root, run, int(operator), int(number), named or ("default",))

    def _folders(self, path: str) -> list[str]:
        return sorted((name for name in self._names(path) if name.isdigit()), key=int)

    def _names(self, folder: str) -> list[str]:
        path = self._jvm.org.apache.hadoop.fs.Path(folder)
        files = path.getFileSystem(self._hadoop)
        return [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []


def follow(planned: Mapping[int, str], located: Mapping[int, str | None], executors: Sequence[str]) -> dict[int, str]:
    """Return the placement closest to a plan.

    Args:
        planned: Planned executor of each partition, by number.
        located: Present executor of each partition; None if it has none.
        executors: Executors that may have partitions, at least one.

    Returns:
        The executor of every partition. A partition that the plan does not name, or whose planned executor is not
        there, keeps its executor, or goes to the executor with the fewest partitions. Without a plan, partitions are
        spread evenly.
    """
    placed = {number: executor for number, executor in planned.items() if executor in executors and number in located}
    if not placed:
        return spread(located, executors)
    kept = {number: executor for number, executor in located.items() if executor is not None and executor in executors}
    placed = kept | placed
    held = Counter(placed.values())
    for number in sorted(located.keys() - placed.keys()):
        placed[number] = min(executors, key=lambda executor: held[executor])
        held[placed[number]] += 1
    return placed


def spread(located: Mapping[int, str | None], executors: Sequence[str]) -> dict[int, str]:
    """Return an even placement that moves as few partitions as possible.

    Args:
        located: Present executor of each partition, by number; None if it has none.
        executors: Executors that may have partitions, at least one.

    Returns:
        The executor of every partition. Each executor gets the same number of partitions, give or take one. If the
        number does not divide evenly, executors that held the most get one more, then earlier ones.
    """
    share, rest = divmod(len(located), len(executors))
    kept: dict[str, list[int]] = {executor: [] for executor in executors}
    homeless = []
    for number, executor in sorted(located.items()):
        if executor in kept:
            kept[executor].append(number)
        else:
            homeless.append(number)
    # executors with the most partitions may keep one more
    order = sorted(executors, key=lambda executor: -len(kept[executor]))
    room = {executor: share + (rank < rest) for rank, executor in enumerate(order)}
    for executor, numbers in kept.items():
        homeless += numbers[room[executor] :]
        del numbers[room[executor] :]
    placed = {number: executor for executor, numbers in kept.items() for number in numbers}
    for executor in executors:
        for _ in range(room[executor] - len(kept[executor])):
            placed[homeless.pop(0)] = executor
    return placed
