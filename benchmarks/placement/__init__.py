"""State partitions on executors: ours by load, against an even spread and Spark's own placement."""
