"""Count words. A plain Structured Streaming job, the last of three.

    words (Delta, from split.py) -> count -> how often each word has occurred so far (Delta)

To run it on its own, see wordcount_app.py.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from wordcount_app import WORD, create, options, read, slowly, write  # type: ignore[import-not-found]


def main() -> None:
    """Run until stopped."""
    given = options(__doc__.splitlines()[0])
    spark = SparkSession.builder.appName("count").getOrCreate()
    create(spark, given.source, WORD)
    words = read(spark, given).mapInPandas(slowly(lambda words: words, given.wait_ms), WORD)
    counts = words.groupBy("word").agg(sf.count("*").alias("times"))
    # each batch replaces the table, as there are few different words
    write(counts, "count", "complete", given)


if __name__ == "__main__":
    main()
