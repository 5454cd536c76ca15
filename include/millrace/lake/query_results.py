"""Results of queries, for as long as none of their tables has changed.

Control tables change a few times per hour, and an evaluation asks the same of them several times.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

import pyarrow as pa

KEPT_RESULTS = 256
LARGEST_BYTES = 2**18
"""Size of a result above which it is not kept: a few hundred rows."""


class QueryResults:
    """The results of the queries run last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Hashable, pa.Table]] = OrderedDict()
        self._lock = Lock()

    def get(self, sql: str, versions: Hashable) -> pa.Table | None:
        """Return the result of a query at the present versions of its tables; None if it is not known."""
        with self._lock:
            known, result = self._kept.get(sql, (None, None))
            return result if known == versions else None

    def keep(self, sql: str, versions: Hashable, result: pa.Table) -> None:
        """Keep a result in place of an older one of the same query."""
        if result.nbytes > LARGEST_BYTES:
            return
        with self._lock:
            self._kept[sql] = versions, result
            self._kept.move_to_end(sql)
            if len(self._kept) > KEPT_RESULTS:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._kept.clear()
