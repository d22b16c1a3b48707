"""A failure is told in a line, not in a trace."""

from __future__ import annotations

from seriatim.errors import ColumnError, QueryFailed
from seriatim.runtime.pipelines.failure_cause import cause_of

WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 \
in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 (TID 3): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "/x/worker.py", line 10, in main
    process()
    ~~~~~~~^^
  File "/x/user.py", line 3, in <lambda>
    raise KeyError("customer")
{last}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Caused by: java.lang.IllegalStateException: something else
"""

JAVA = """[STREAM_FAILED] Query [id = 1] terminated with exception: [CANNOT_READ_FILE] Could not read file:/in/a.parquet.
org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.x(Y.scala:1)
Caused by: java.lang.RuntimeException: file:/in/a.parquet is not a Parquet file
\tat org.apache.parquet.x(Y.java:1)
"""


def test_the_workers_own_words():
    error = cause_of(RuntimeError(WORKER.format(last="KeyError: 'customer'")))
    assert error.what == "the query failed: KeyError: 'customer'"
    assert "--verbose" in error.remedy


def test_our_own_errors_come_back_as_they_were():
    error = cause_of(RuntimeError(WORKER.format(last="seriatim.errors.ColumnError: version: is a string")))
    assert type(error) is ColumnError
    assert str(error) == "version: is a string"
    same = ColumnError("x")
    assert cause_of(same) is same


def test_an_exception_without_words():
    assert cause_of(RuntimeError(WORKER.format(last="MemoryError"))).what == "the query failed: MemoryError"


def test_the_innermost_cause_of_the_jvm():
    error = cause_of(RuntimeError(JAVA))
    assert type(error) is QueryFailed
    assert error.what == "the query failed: file:/in/a.parquet is not a Parquet file"


def test_a_cause_without_words_tells_nothing():
    error = cause_of(RuntimeError(f"{JAVA}Caused by: java.io.EOFException\n\tat java.base/x(Y.java:1)\n"))
    assert error.what == "the query failed: file:/in/a.parquet is not a Parquet file"


UNREADABLE = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Lost task 0.0 (TID 3) \
org.apache.spark.SparkException: [FAILED_READ_FILE.{kind}] Encountered error while reading file file:///in/2.parquet. {more}SQLSTATE: KD001
\tat org.apache.spark.x(Y.scala:1)
Caused by: org.apache.x.SchemaColumnConvertNotSupportedException: {cause}
\tat org.apache.x(Y.java:1)
"""


def test_a_file_that_can_t_be_read_is_named():
    text = UNREADABLE.format(kind="NO_HINT", more="", cause="column: [version], physicalType: BINARY")
    assert (
        cause_of(RuntimeError(text)).what
        == "the query failed: file:///in/2.parquet: column: [version], physicalType: BINARY"
    )
    text = UNREADABLE.format(kind="NO_HINT", more="", cause="file:/in/2.parquet is not a Parquet file")
    assert cause_of(RuntimeError(text)).what == "the query failed: file:/in/2.parquet is not a Parquet file"
    why = "Expected Spark type bigint, actual Parquet type BINARY."
    text = UNREADABLE.format(kind="PARQUET_COLUMN_DATA_TYPE_MISMATCH", more=f"{why} ", cause="column: [version]")
    error = cause_of(RuntimeError(text))
    assert error.what == f"the query failed: Encountered error while reading file file:///in/2.parquet. {why}"
    assert error.remedy.startswith("write the file with that type")


def test_an_exception_of_the_jvm_that_has_no_cause():
    text = "An error occurred while calling o45.start.\n: java.lang.IllegalStateException: a log is damaged\n\tat x(Y.java:1)"
    assert cause_of(RuntimeError(text)).what == "the query failed: a log is damaged"


def test_long_causes_are_cut():
    assert len(cause_of(RuntimeError("x" * 10_000)).what) < 600


def test_nothing_to_tell():
    assert cause_of(RuntimeError("")).what == "the query failed: RuntimeError"
