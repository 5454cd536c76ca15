"""Clean sentences: only letters, in lower case. A plain Structured Streaming job, the first of three.

    sentences (Delta) -> clean -> plain sentences (Delta, for split.py)

To run it on its own, see wordcount_app.py.
"""

from __future__ import annotations

import pandas as pd
from pyspark.sql import SparkSession
from wordcount_app import SENTENCE, create, options, read, slowly, write  # type: ignore[import-not-found]


def main() -> None:
    """Run until stopped."""
    given = options(__doc__.splitlines()[0])
    spark = SparkSession.builder.appName("clean").getOrCreate()
    create(spark, given.results, SENTENCE)

    def clean(sentences: pd.DataFrame) -> pd.DataFrame:
        return sentences.assign(text=sentences["text"].str.lower().str.replace("[^a-z]+", " ", regex=True))

    write(read(spark, given).mapInPandas(slowly(clean, given.wait_ms), SENTENCE), "clean", "append", given)


if __name__ == "__main__":
    main()
