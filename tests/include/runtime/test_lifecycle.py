"""The one line that says what went wrong."""

from __future__ import annotations

import pytest

from millrace.runtime.lifecycle import LIMIT, describe

WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task
0 in stage 4.0 failed 1 times: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
  File "s.py", line 12, in enrich
    raise mine.LookupError("no such route: ü")
mine.LookupError: no such route: ü

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Driver stacktrace: SQLSTATE: XXKST"""


class StreamingQueryException(Exception):  # noqa: N818 - Spark's name
    pass


def test_describe_a_failure_in_a_worker_names_the_scripts_exception() -> None:
    assert describe(StreamingQueryException(WORKER)) == "mine.LookupError: no such route: ü"


SINK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_ERROR] Reason:
Traceback (most recent call last):
  File "/x/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
millrace.model.errors.Conflict: results: 30 was committed by another writer
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Logical Plan:
+- LocalRelation <empty>"""


def test_describe_a_failure_in_the_driver_leaves_the_plan_out() -> None:
    expected = "millrace.model.errors.Conflict: results: 30 was committed by another writer"
    assert describe(StreamingQueryException(SINK)) == expected
    without = SINK[: SINK.index("Traceback")] + SINK[SINK.index("=== ") :]
    assert describe(StreamingQueryException(without)).endswith("Reason:")


def test_describe_a_query_that_failed_leaves_out_what_spark_puts_around_the_cause() -> None:
    cause = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes"
    ids = "[id = f6d5e2f6-3233-4138-8e04-4cd62371aeaa, runId = 045858d7-180d-435d-9f6f-427cc527dd29]"
    text = f"[STREAM_FAILED] Query {ids} terminated with exception: {cause} SQLSTATE: XXKST"
    assert describe(StreamingQueryException(text)) == cause


def test_describe_when_the_engine_failed_then_names_the_last_cause() -> None:
    text = "An error\n: java.lang.RuntimeException: outer\n\tat x\nCaused by: java.io.IOException: disk full\n\tat y"
    assert describe(StreamingQueryException(text)) == "java.io.IOException: disk full"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (ValueError(), "ValueError"),
        (ValueError("first\n\n last \n"), "ValueError: last"),
        (KeyError("k"), "KeyError: 'k'"),
        (StreamingQueryException("stopped"), "StreamingQueryException: stopped"),
    ],
)
def test_describe_when_the_script_raised_then_is_type_and_last_line(error: Exception, line: str) -> None:
    assert describe(error) == line


def test_describe_when_the_text_is_endless_then_is_cut() -> None:
    assert len(describe(ValueError("x" * 10_000))) == LIMIT
