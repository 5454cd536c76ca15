"""The published, frequency-aware form of consistent hashing (:mod:`millrace.model.ring`): it splits frequent keys.

p_i: parts of key i = ceil(f_i / f_(K+1)), f_i: rows of the i-th most frequent key, K: how many keys are split.
Part j of key i, i#j, has its own position on the ring.

Reference: Balkesen, Tatbul, Ozsu, DEBS 2013, Section 4.1; the ratio is ours, the paper says "proportional to f_i".
Deviation: a row's part is drawn from the row itself instead of round robin, so a repeated task sends each row to the
same worker as before.
"""

from __future__ import annotations

from collections import Counter
from math import ceil

import numpy as np

from millrace.model.partitioning import PartitionMap, Sketch
from millrace.model.ring import mixed, of_groups, owners


def paper_hash(sketch: Sketch, workers: int, hot_keys: int) -> PartitionMap:
    """Return the map of the published method.

    Args:
        sketch: How often keys occur.
        workers: Number of workers, >= 1.
        hot_keys: Maximum number of keys to split, >= 0.
    """
    top = sketch.hottest(hot_keys + 1)
    groups = of_groups(len(sketch.groups), workers)
    unit = sketch.frequent[top[-1]][0] if top else 0.0
    hot = {}
    for key in top[:hot_keys]:
        parts = ceil(sketch.frequent[key][0] / unit)
        if parts > 1:
            # using a key's rank would move its parts when frequencies change; its group stays the same
            names = np.arange(parts, dtype=np.uint64) + (np.uint64(sketch.frequent[key][1]) << np.uint64(32))
            of_worker = Counter(owners(mixed(names), workers).tolist())
            hot[key] = {worker: count / parts for worker, count in sorted(of_worker.items())}
    return PartitionMap(workers, groups, hot)
