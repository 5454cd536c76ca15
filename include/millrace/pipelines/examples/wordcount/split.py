"""Split plain sentences into words. A plain Structured Streaming job, the second of three.

    plain sentences (Delta, from clean.py) -> split -> words (Delta, for count.py), several per sentence

To run it on its own, see wordcount_app.py.
"""

from __future__ import annotations

import pandas as pd
from pyspark.sql import SparkSession
from wordcount_app import SENTENCE, WORD, create, options, read, slowly, write  # type: ignore[import-not-found]


def main() -> None:
    """Run until stopped."""
    given = options(__doc__.splitlines()[0])
    spark = SparkSession.builder.appName("split").getOrCreate()
    create(spark, given.source, SENTENCE)
    create(spark, given.results, WORD)

    def split(sentences: pd.DataFrame) -> pd.DataFrame:
        words = sentences.assign(word=sentences["text"].str.split()).explode("word")
        return words[["row_id", "word"]].dropna()

    write(read(spark, given).mapInPandas(slowly(split, given.wait_ms), WORD), "split", "append", given)


if __name__ == "__main__":
    main()
