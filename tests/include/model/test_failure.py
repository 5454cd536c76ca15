"""The one line that says why something failed, from real messages of Python, Java, py4j, Spark and Delta."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.model.failure import LIMIT, OUR_LIMIT, killed_by, reason, reason_of, restart_cures

FAILED = "[STREAM_FAILED] Query [id = f6d5e2f6-3233-4138-8e04-4cd62371aeaa, runId = 0458] terminated with exception: "
PLAN = "\n=== Streaming Query ===\nIdentifier: [id = f6d5e2f6]\nCurrent State: ACTIVE\nLogical Plan:\n+- Nonsense: 1"
RECREATED = """[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from an unexpected \
Delta table (id = '60e5ad04-2a4b-412a-9758-34bba0266abd').
It used to read from another Delta table (id = '1d4f') according to checkpoint.
This may happen when you changed the code to read from a new table or you deleted and
re-created a table. Please revert your change or delete your streaming query checkpoint
to restart from scratch. SQLSTATE: XXKST"""
OVERWRITTEN = """[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update (for example WRITE (Map(mode -> Overwrite, \
partitionBy -> []))) in the source table at version 1. This is currently not supported. If this is going to happen
regularly and you are okay to skip changes, set the option 'skipChangeCommits' to 'true'. SQLSTATE: 0A000"""
SCHEMA = """[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 1:
streaming source schema: root
 -- id: long (nullable = true)


data file schema: root
 -- id: long (nullable = true)
 -- x: integer (nullable = true)


Please try restarting the query. If this issue repeats across query restarts without
making progress, you have made an incompatible schema change. SQLSTATE: KD007"""
ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 4.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 4.0 (TID 7) (10.0.0.7 executor 2): "
)
IN_A_WORKER = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
  File "s.py", line 12, in enrich
    raise mine.NoRoute("no such route: ü")
mine.NoRoute: no such route: ü

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Driver stacktrace: SQLSTATE: XXKST"""
IN_A_SINK = """[FOREACH_BATCH_ERROR] Reason:
Traceback (most recent call last):
  File "/x/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
{raised}
 SQLSTATE: 39000 SQLSTATE: XXKST"""
CONFLICT = "millrace.model.errors.Conflict: results: 30 was committed by another writer"
COLUMN = """pyspark.errors.exceptions.captured.AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, \
variable, or function parameter with name `nope` cannot be resolved. Did you mean one of the following? [`id`]. \
SQLSTATE: 42703;
'Project ['nope]
+- LogicalRDD [id#0L], true"""
PY4J = """An error occurred while calling o43.save.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make \
sure the provider name is correct. SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:790)
\tat java.base/jdk.internal.reflect.NativeMethodAccessorImpl.invoke0(Native Method)
\t... 16 more"""
CAUSED = """An error occurred while calling o55.awaitTermination.
: org.apache.spark.SparkException: outer
\tat org.apache.spark.A.b(A.scala:1)
Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file \
part-0.parquet. File does not exist. SQLSTATE: KD001
\tat org.apache.spark.C.d(C.scala:2)
Caused by: java.io.FileNotFoundException: File file:/t/part-0.parquet does not exist
\tat org.apache.hadoop.E.f(E.java:3)
\t... 3 more"""
CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in f
KeyError: 'port'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
ConnectionError: the broker has no port"""


class StreamingQueryException(Exception):  # noqa: N818 - Spark's name
    pass


class Py4JJavaError(Exception):
    pass


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            FAILED + RECREATED + " SQLSTATE: XXKST" + PLAN,
            "[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from an unexpected "
            "Delta table (id = '60e5ad04-2a4b-412a-9758-34bba0266abd')",
        ),
        (
            FAILED + OVERWRITTEN + " SQLSTATE: XXKST",
            "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update (for example WRITE (Map(mode -> Overwrite, "
            "partitionBy -> []))) in the source table at version 1",
        ),
        (
            FAILED + SCHEMA + " SQLSTATE: XXKST" + PLAN,
            "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 1",
        ),
        (FAILED + FAILED + SCHEMA, "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 1"),
        (
            FAILED + "org.apache.kafka.common.errors.TimeoutException: Timed out. Call: listNodes SQLSTATE: XXKST",
            "org.apache.kafka.common.errors.TimeoutException: Timed out",
        ),
        (
            FAILED + ABORTED + "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use "
            "`try_divide` to tolerate divisor being 0. SQLSTATE: 22012\n\tat org.apache.spark.A.b(A.scala:203)",
            "[DIVIDE_BY_ZERO] Division by zero",
        ),
        (FAILED + ABORTED + IN_A_WORKER, "mine.NoRoute: no such route: ü"),
        (FAILED + IN_A_SINK.format(raised=CONFLICT) + PLAN, CONFLICT),
        (
            FAILED + IN_A_SINK.format(raised=COLUMN) + PLAN,
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nope` cannot be "
            "resolved",
        ),
        (
            FAILED + IN_A_SINK.format(raised=f"py4j.protocol.Py4JJavaError: {PY4J}"),
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta",
        ),
        (FAILED + "[FOREACH_BATCH_ERROR] Reason:\n\n SQLSTATE: 39000" + PLAN, "[FOREACH_BATCH_ERROR] Reason"),
        (
            FAILED + ABORTED + "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: "
            "Command exited with code 137\nDriver stacktrace: SQLSTATE: XXKST",
            "StreamingQueryException: Command exited with code 137 (SIGKILL, often for want of memory)",
        ),
        (
            FAILED + ABORTED + "java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.Arrays.copyOf"
            "(Arrays.java:3537)",
            "java.lang.OutOfMemoryError: Java heap space",
        ),
        (
            FAILED + "Job aborted due to stage failure: Task 3 in stage 1.0 failed 1 times: boom",
            "StreamingQueryException: boom",
        ),
        ("stopped", "StreamingQueryException: stopped"),
    ],
)
def test_reason_of_a_failed_query_is_the_causes_class_and_first_sentence(text: str, line: str) -> None:
    assert reason(StreamingQueryException(text)) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PY4J, "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta"),
        (CAUSED, "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file part-0.parquet"),
        (
            "An error\n: java.lang.RuntimeException: outer\n\tat x\nCaused by: java.io.IOException: disk full\n\tat y",
            "java.io.IOException: disk full",
        ),
        ("An error occurred while calling o1.x.\n: java.lang.OutOfMemoryError", "java.lang.OutOfMemoryError"),
    ],
)
def test_reason_of_an_error_in_the_jvm_is_its_innermost_cause(text: str, line: str) -> None:
    assert reason(Py4JJavaError(text)) == line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (ValueError("First. Second"), "ValueError: First"),
        (ValueError("e.g. this, v. 3.5.1 of x.py, fails"), "ValueError: e.g. this, v. 3.5.1 of x.py, fails"),
        (ValueError(), "ValueError"),
        (ValueError("first\n\n last \n"), "ValueError: first"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError("config.yaml: bad"), "ValueError: config.yaml: bad"),
        (SystemExit(3), "the script ended with exit code 3"),
        (SystemExit(137), "the script ended with exit code 137 (SIGKILL, often for want of memory)"),
        (SystemExit("no such topic"), "the script ended by itself: no such topic"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_reason_of_an_exception_in_a_script_is_its_type_and_first_sentence(error: BaseException, line: str) -> None:
    assert reason(error) == line


def test_reason_of_our_own_error_keeps_its_remedy() -> None:
    error = MillraceError("checkpoint", "/c", "a checkpoint of its own", "Process 7 has it. End it first.")
    assert reason(error) == str(error)
    assert reason_of(f"millrace.model.errors.MillraceError: {error}") == str(error)
    assert reason(StreamingQueryException(FAILED + IN_A_SINK.format(raised=f"x.MillraceError: {error}"))) == str(error)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (CHAINED, "ConnectionError: the broker has no port"),
        (
            'Exception in thread "main" org.apache.spark.SparkException: Failed to get main class in JAR',
            "org.apache.spark.SparkException: Failed to get main class in JAR",
        ),
        ("Caused by: java.net.BindException: Address already in use", "java.net.BindException: Address already in use"),
        (": java.io.IOException: disk full", "java.io.IOException: disk full"),
        ("Error: Unrecognized option: --nope", "Error: Unrecognized option: --nope"),
        (f"pyspark.errors.exceptions.captured.StreamingQueryException: {FAILED}{RECREATED}", None),
        ("", "no error is known"),
    ],
)
def test_reason_of_printed_text_matches_that_of_the_exception(text: str, line: str | None) -> None:
    assert reason_of(text) == (line or reason(StreamingQueryException(FAILED + RECREATED)))


@given(st.text() | st.lists(st.sampled_from([FAILED, ABORTED, PY4J, CAUSED, CHAINED, IN_A_WORKER, PLAN])).map("".join))
def test_reason_of_any_text_is_one_short_line(text: str) -> None:
    for line in (reason(StreamingQueryException(text)), reason_of(text)):
        assert line and "\n" not in line and len(line) <= OUR_LIMIT


def test_endless_reason_is_cut() -> None:
    assert len(reason(ValueError("x " * 10_000))) <= LIMIT


@pytest.mark.parametrize(
    ("line", "cures"),
    [
        ("[DELTA_SCHEMA_CHANGED] Detected schema change", True),
        ("[DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS] Detected schema change in version 3", True),
        ("[DELTA_STREAMING_METADATA_EVOLUTION] The schema, table configuration or protocol has changed", True),
        ("[DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART] The streaming query's schema does not match", True),
        ("[DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION] We've detected one or more", False),
        ("[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG] Streaming read is not supported", False),
        ("[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] Another table", False),
        ("ValueError: [DELTA_SCHEMA_CHANGED] is no class here", False),
        ("", False),
    ],
)
def test_restart_fixes_only_the_failures_that_delta_names(line: str, cures: bool) -> None:
    assert restart_cures(line) == cures


def test_exit_codes_of_signals_have_their_names() -> None:
    assert [killed_by(code) for code in (137, -9, 143)] == ["SIGKILL", "SIGKILL", "SIGTERM"]
    assert [killed_by(code) for code in (1, 0, 255)] == [None] * 3
