"""The streaming queries that run in an application, whoever started them and in whichever session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RunningQuery:
    """A running query, with the parts of PySpark's ``StreamingQuery`` that the agent uses."""

    _execution: Any

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it still runs."""
        return bool(self._execution.isActive())

    @property
    def runId(self) -> str:  # noqa: N802 - Spark's name
        """Id of its run."""
        return str(self._execution.runId().toString())

    @property
    def _jsq(self) -> RunningQuery:
        return self

    def status(self) -> Any:
        """Return the JVM's ``StreamingQueryStatus``."""
        return self._execution.status()

    def streamingQuery(self) -> Any:  # noqa: N802 - Spark's name
        """Return the JVM's ``StreamExecution``."""
        return self._execution


class RunningQueries(Sequence[RunningQuery]):
    """A live view: each use asks Spark which queries run now.

    Args:
        spark: Any session of the application; sessions share running queries.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        session: Any = spark._jsparkSession
        self._active = session.sharedState().activeStreamingQueries()

    def __iter__(self) -> Iterator[RunningQuery]:
        return iter(self._now())

    def __len__(self) -> int:
        return int(self._active.size())

    @overload
    def __getitem__(self, index: int) -> RunningQuery: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[RunningQuery]: ...

    def __getitem__(self, index: int | slice) -> RunningQuery | Sequence[RunningQuery]:
        return self._now()[index]

    def _now(self) -> list[RunningQuery]:
        return [RunningQuery(execution) for execution in self._jvm.java.util.ArrayList(self._active.values())]
