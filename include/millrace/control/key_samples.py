"""Add up the samples of keys that a period's micro-batches reported (``telemetry/keys``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.row_codec import key_sample_from_row
from millrace.lake.store import Lake
from millrace.model.key_map import HOT_KEYS, HotKey, KeySample
from millrace.model.spec import PipelineSpec

KEYS = "telemetry/keys"
MOST_ROWS = 1000
"""Most samples of a period, the newest."""
MOST_COUNT = 2**53
"""Largest count that is believed."""


def key_samples(
    spec: PipelineSpec, lake: Lake, after: datetime | None, since: datetime, until: datetime
) -> tuple[KeySample, ...]:
    """Return a period's samples of the app's keys, one of each name; none unless the spec wants maps.

    Args:
        spec: The pipeline.
        lake: Its telemetry.
        after: End of the last evaluation (UTC), exclusive; None to begin with the period.
        since: Start of the period (UTC).
        until: End of the period (UTC), inclusive. Drivers commit the samples before the batches that end by then.
    """
    if spec.partitioning is None:
        return ()
    begin = since if after is None else after
    rows = read_recent(lake, RowQuery(KEYS, spec.name, MOST_ROWS, not_before=begin)).rows.to_pylist()
    samples = [s for s in _sound(rows) if s.app == spec.app and begin < s.time <= until]
    names = dict.fromkeys(sample.name for sample in samples)
    return tuple(_added_up([sample for sample in samples if sample.name == name]) for name in sorted(names))


def _sound(rows: Sequence[dict[str, object]]) -> Iterator[KeySample]:
    for row in rows:
        try:
            sample = key_sample_from_row(row)
        except ValueError:
            continue
        counts = [hot.rows for hot in sample.hot]
        if sample.workers >= 1 and 0 <= sum(counts) <= sample.rows <= MOST_COUNT and min(counts, default=1) > 0:
            yield sample


def _added_up(samples: Sequence[KeySample]) -> KeySample:
    """Return the samples of one name as one. Those of other columns than the newest are of an earlier script."""
    newest = max(samples, key=lambda sample: sample.time)
    rows: Counter[int] = Counter()
    labels: dict[int, str] = {}
    same = [sample for sample in samples if sample.columns == newest.columns]
    for sample in same:
        for hot in sample.hot[:HOT_KEYS]:
            rows[hot.key] += hot.rows
            labels[hot.key] = hot.label
    most = sorted(rows, key=lambda key: (-rows[key], key))[:HOT_KEYS]
    hot_keys = tuple(HotKey(key, labels[key], rows[key]) for key in most)
    total = sum(sample.rows for sample in same)
    return replace(newest, rows=total, hot=hot_keys)
