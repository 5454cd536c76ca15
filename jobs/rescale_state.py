"""Changes the number of an app's state partitions, or undoes that. The reconciler starts it through spark-submit.

It holds the app's lock, so no driver starts a query. Only copies are deleted while a driver runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "include"))

from millrace.model.errors import MillraceError
from millrace.run_folder.lock import AppLock
from millrace.run_folder.rescale_record import Verb
from millrace.runtime import rescale
from millrace.runtime.jvm_lock import JvmLock

LOCK_S, POLL_S = 60.0, 0.1
"""A killed driver frees the lock at once; a running one keeps it."""
WORK = {Verb.CHANGE: rescale.change, Verb.UNDO: rescale.undo, Verb.CLEAN: rescale.clean}


def main(argv: Sequence[str]) -> None:
    """Do what the arguments say, see :func:`millrace.run_folder.rescale_record.arguments`.

    Raises:
        MillraceError: If a driver of the app still runs.
    """
    from pyspark.sql import SparkSession

    verb, folder = Verb(argv[0]), Path(argv[1])
    spark = SparkSession.builder.getOrCreate()
    lock = AppLock(folder)
    jvm_lock = JvmLock(spark, lock.path)
    if verb is not Verb.CLEAN:
        _acquire(lock, jvm_lock)
    WORK[verb](spark, folder)
    spark.stop()


def _acquire(lock: AppLock, jvm_lock: JvmLock) -> None:
    give_up = time.monotonic() + LOCK_S
    while not (lock.try_acquire() and jvm_lock.try_acquire()):
        if time.monotonic() > give_up:
            remedy = "Wait until it has ended."
            raise MillraceError("rescale", str(lock.path), "an app without a driver", remedy)
        time.sleep(POLL_S)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except MillraceError as error:
        sys.exit(str(error))
