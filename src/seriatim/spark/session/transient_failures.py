"""The failures of a query after which a restart may succeed: one table; all others are permanent.

A failure of Spark is recognised by the words that classes of Spark, Hadoop and Kafka use for it (PySpark 4.3); an
error of seriatim by its class. The failures in the table are caused by a machine that was slow, full or unreachable for
a moment. A worker that ended is among them, too, because the calls that were running are then made in separate
processes (`calls/child_process.py`).
"""

from __future__ import annotations

import re

from seriatim.errors import QueryFailed, SeriatimError, Transient, Unavailable

#: The texts of failures, and what has happened, in words.
HEALING: tuple[tuple[str, str], ...] = (
    # Python workers.
    (r"Python worker failed to connect back|Python worker to connect back", "a Python worker was slow to start"),
    (r"STREAMING_PYTHON_RUNNER_INITIALIZATION_(?:TIMEOUT|COMMUNICATION)_FAILURE", "a Python worker was slow to start"),
    (r"Python worker exited unexpectedly", "a Python worker ended"),
    (
        r"Python daemon failed to launch worker|reading (?:the )?port number from ",
        "a Python worker could not be started",
    ),
    (r"error=11, |error=12, |Resource temporarily unavailable|Cannot allocate memory", "the machine was full"),
    # Executors, and their data.
    (r"ExecutorLostFailure|ExecutorDeadException|Executor heartbeat timed out", "an executor was lost"),
    (r"FetchFailed|FetchFailedException|MetadataFetchFailedException", "an executor was lost"),
    (r"shuffle map stage with indeterminate output was failed and retried", "an executor was lost"),
    (
        r"UNRELEASED_THREAD_ERROR|could not be acquired by|RocksDB instance .* lock",
        "a task before still held its state",
    ),
    # The network and the services at its other end.
    (r"java\.net\.(?:Connect|SocketTimeout|Socket|NoRouteToHost|UnknownHost)Exception", "the network failed"),
    (r"Connection (?:refused|reset|timed out)|Broken pipe|No route to host", "the network failed"),
    (
        r"org\.apache\.kafka\.common\.errors\.(?:\w*Timeout|Disconnect|Network|\w*NotAvailable)\w*",
        "the broker was away",
    ),
    (r"RpcTimeoutException|Futures timed out|TimeoutException", "an answer took too long"),
    (r"No space left on device|Disk quota exceeded", "a disk was full"),
)
_TABLE = [(re.compile(words), cause) for words, cause in HEALING]


def healing(error: SeriatimError, text: str) -> str | None:
    """Return the cause of a failure after which a restart may succeed; None: it is permanent. `text`: Spark's full description."""
    if isinstance(error, Unavailable | Transient):
        return "a service was away"
    if not isinstance(error, QueryFailed):
        return None
    return healing_of_spark(text)


def healing_of_spark(text: str) -> str | None:
    return next((cause for words, cause in _TABLE if words.search(text)), None)
