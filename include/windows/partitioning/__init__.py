"""Even partitions of frames with skewed keys, for Spark batches and streams; usable without the rest of Millrace."""

from include.windows.partitioning.merged import merged
from include.windows.partitioning.partition_map import PartitionMap
from include.windows.partitioning.sketch import Sketch, sketch
from include.windows.partitioning.spread import plan, spread

__all__ = ["PartitionMap", "Sketch", "merged", "plan", "sketch", "spread"]
