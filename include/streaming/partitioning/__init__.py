"""Even partitions of frames with skewed keys, for Spark batches and streams; usable without the rest of Millrace."""

from include.streaming.partitioning.merged import merged
from include.streaming.partitioning.partition_map import PartitionMap
from include.streaming.partitioning.sketch import Sketch, sketch
from include.streaming.partitioning.spread import plan, spread

__all__ = ["PartitionMap", "Sketch", "merged", "plan", "sketch", "spread"]
