"""Even partitions of frames with skewed keys, for Spark batches and streams; usable without the rest of Millrace."""

from millrace.windows.partitioning.sketch import PartitionMap, Sketch, sketch
from millrace.windows.partitioning.spread import merged, plan, spread

__all__ = ["PartitionMap", "Sketch", "merged", "plan", "sketch", "spread"]
