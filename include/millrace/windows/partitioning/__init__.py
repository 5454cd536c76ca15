"""Even partitions of frames with skewed keys, for Spark batches and streams; usable without the rest of Millrace."""

from millrace.model.partitioning import PartitionMap, Sketch
from millrace.windows.partitioning.following import Followed, followed
from millrace.windows.partitioning.sketch import sketch
from millrace.windows.partitioning.spread import merged, plan, spread

__all__ = ["Followed", "PartitionMap", "Sketch", "followed", "merged", "plan", "sketch", "spread"]
