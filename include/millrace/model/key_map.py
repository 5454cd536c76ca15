"""How rows are spread over workers by their keys: what a running query reports, and the map that it follows.

A key is known by the 64-bit hash of its columns, Spark's ``xxhash64``: short, of one type, and the same in every batch.
A key's group is its hash modulo the number of key groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

PARTITION_OPTIMIZER = "waterfill"
"""Name of the optimizer that makes maps."""
KEY_GROUPS = 1024
"""Key groups of a running query. They only carry keys that are not hot, and a map names each that it moves."""
HOT_KEYS = 128
"""Most keys that are counted one by one, and may be split."""


@dataclass(frozen=True)
class HotKey:
    """A frequent key.

    Attributes:
        key: Hash of its columns.
        label: Its values as text, for people; may be cut off.
        rows: Its rows in a sample, >= 1.
    """

    key: int
    label: str
    rows: int


@dataclass(frozen=True)
class KeySample:
    """The keys of one micro-batch, from a sample of its rows (a row of ``telemetry/keys``), or of several.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        generation: Start number of the driver, >= 1.
        time: When the rows were counted, the newest ones of several samples (UTC).
        name: Name that the script gave the keys.
        columns: Their columns.
        workers: Workers that the rows are spread over, >= 1.
        revision: Revision of the deployed map in use; None if the query uses its own.
        rows: Rows of the sample, >= 0.
        hot: The most frequent keys among them, by falling number of rows, at most :data:`HOT_KEYS`; other rows have
            other keys.
    """

    pipeline: str
    app: str
    generation: int
    time: datetime
    name: str
    columns: tuple[str, ...]
    workers: int
    revision: int | None
    rows: int
    hot: tuple[HotKey, ...]


@dataclass(frozen=True)
class KeyMap:
    """Which worker gets the rows of which keys, in short (part of a Deployment, tier T0).

    A key group is where consistent hashing (:func:`millrace.model.ring.of_groups`) has it, and a key where its group
    is, unless the map says otherwise.

    Attributes:
        revision: Identifies the map among those of its name, >= 1; it only increases with new maps.
        columns: Columns of the keys.
        workers: Number of workers, >= 1.
        key_groups: Number of key groups, >= 1.
        moved: Worker of each key group that is elsewhere.
        hot: Shares of the rows of each hot key by worker; >= 0, adding up to 1 except for rounding.
    """

    revision: int
    columns: tuple[str, ...]
    workers: int
    key_groups: int = KEY_GROUPS
    moved: Mapping[int, int] = field(default_factory=dict)
    hot: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
