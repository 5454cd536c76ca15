"""Fixed text of docs/benchmarks.md."""

HEAD = """# Benchmarks

Millrace runs in your Airflow. While Spark Structured Streaming jobs run, it adds and removes executors, moves state
partitions between them, and moves input streams between drivers. This page reports what it gains and what it costs,
next to rivals: other ways to do the same, each with its best settings. Live figures are from one machine with two cores
and 24 GiB. They show ratios, not how large a job can be.

- A *slot* runs one task at a time. *Core-seconds* are slots times the seconds that the job holds them. In the streams,
  a row waits 60 ms for a service, which takes no processor, so two cores can run eight slots.
- A job is *behind* while a row has waited longer than its goal (`objective.max_lag_s`; 30 s in the streams).
- A rival is *better in both* if it takes fewer core-seconds and is behind for no longer, or is behind for less time and
  takes no more core-seconds.
- A target is *met* if all seeds meet it, even at the worse end of the 95 % interval (in parentheses) or in the worst
  round. Methods were developed on one seed only.

{met} of {judged} targets are met; [the most important of the others](#where-millrace-loses) are at the end.
"""
COLUMNS = """| figure | Millrace | rivals | verdict | measured by |
|---|---|---|---|---|"""
RIVALS = """\
- Fixed slots: no scaling. One pipeline per app: each app of the chain is scaled alone.
- Spark's dynamic allocation: with its timeouts tuned for streaming. Spark's defaults: its own placement of state.
- Kubernetes' rule on CPU: that of the HorizontalPodAutoscaler. Batch-ratio scaling: Spark's proposal SPARK-24815.
- DS2 and ContTune: published tuners, run on the same measurements as Millrace's own.
- DRF-M and ARD: published methods of admission, which move streams and start and stop drivers, too.
"""
SIMULATED_RIVALS = """\
- Oracle: knows each throughput, and chooses the fewest slots that are enough. Anything cheaper had too few slots.
- Flink's autoscaler: its rules, with its default utilisation of 0.7 and band of 0.3.
- DRF-M: a published method of admission. `k1` to `k5` and `full_0.8` to `full_0.9` are its settings.
"""
TAIL = """## All figures

`python -m benchmarks.document` writes this page from the records in `docs/benchmarks/`, which name the day and the
commit of each figure. `./millrace docs` writes all scenarios, methods, figures and seeds to `var/docs/benchmarks/`: a
page and a CSV file for each benchmark, and `index.html` with the missed targets and their reasons. To measure again,
run `./millrace bench NAME --json docs/benchmarks`; `./millrace bench all --json docs/benchmarks` measures what is
missing.
"""
