"""What heals is tried again, a limited number of times, unless it got on in between; and nothing else is."""

from __future__ import annotations

import pytest

from seriatim.errors import ColumnError, QueryFailed, SeriatimError, Unavailable
from seriatim.runtime.pipelines import attempts
from seriatim.runtime.pipelines.attempts import Attempts
from seriatim.runtime.pipelines.progress import Again
from seriatim.runtime.stop_signal import Stop

SLOW = RuntimeError(
    "[STREAM_FAILED] terminated with exception: Python worker failed to connect back.\n"
    "Caused by: org.apache.spark.SparkException: Python worker failed to connect back.\n\tat x(Y.scala:1)\n"
    "Caused by: java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back\n"
)
HEALS = {
    "org.apache.spark.SparkException: Python worker failed to connect back.": "a Python worker was slow to start",
    "Job aborted: Python worker exited unexpectedly (crashed). Consider setting": "a Python worker ended",
    "java.io.IOException: Cannot run program: error=11, Resource temporarily unavailable": "the machine was full",
    "Caused by: java.net.ConnectException: Connection refused": "the network failed",
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)": "an executor was lost",
    "Caused by: java.io.IOException: No space left on device": "a disk was full",
}
STAYS = (
    "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///in/a.json. File does not exist.",
    "Caused by: java.lang.RuntimeException: file:/in/a.parquet is not a Parquet file",
    "java.lang.OutOfMemoryError: Java heap space",
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(attempts, "WAITS_S", (0.0, 0.0))


def tried(failure, *, lives=True, told=None, stop=None):
    return Attempts(stop=stop or Stop(), tell=told.append if told is not None else None, lives=lambda: lives)


def test_it_ends_where_it_gets_on_no_more():
    told = []
    query = tried(SLOW, told=told)
    assert query.after(SLOW)
    assert query.after(SLOW)
    with pytest.raises(QueryFailed, match="worker to connect back; tried 3 times without getting on") as caught:
        query.after(SLOW)
    assert caught.value.code == "query-failed"
    assert [(one.what, one.attempt, one.attempts) for one in told] == [
        ("a Python worker was slow to start", 1, 2),
        ("a Python worker was slow to start", 2, 2),
    ]
    assert all(isinstance(one, Again) and "connect back" in one.reason for one in told)


def test_a_batch_that_was_done_counts():
    query = tried(SLOW)
    for _ in range(5):
        assert query.after(SLOW)
        query.got_on()


@pytest.mark.parametrize("text", HEALS)
def test_what_heals(text):
    told = []
    assert tried(text, told=told).after(RuntimeError(text))
    assert told[0].what == HEALS[text]


@pytest.mark.parametrize("text", STAYS)
def test_what_does_not_heal(text):
    with pytest.raises(QueryFailed):
        tried(text).after(RuntimeError(text))


def test_our_own_errors_say_themselves_whether_they_heal():
    assert tried(None).after(Unavailable("the box's server is away"))
    with pytest.raises(ColumnError):
        tried(None).after(ColumnError("Connection refused is not the name of a column"))


def test_nothing_heals_where_spark_has_ended():
    with pytest.raises(SeriatimError):
        tried(SLOW, lives=False).after(SLOW)


def test_waiting_ends_where_someone_asks_for_the_end(monkeypatch):
    monkeypatch.setattr(attempts, "WAITS_S", (3600.0,))
    stop = Stop()
    query = Attempts(stop=stop, tell=lambda _: stop.request(), lives=lambda: True)
    assert not query.after(SLOW)
