"""Open Spark: the only place that builds a session.

This module owns the settings that a pipeline needs to be correct (the workers' Python, UTC, the state
store, the splitting of files) or convenient (logging, memory, addresses). It knows no pipeline.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from seriatim.errors import EnvironmentProblem, UsageError
from seriatim.spark.session.shipping import ship

_LEAST_JAVA = 17
_GIB = 2**30
_LOOPBACK = re.compile(r"spark://(127\.[0-9.]+|localhost):[0-9]+$")
_INSTALL_JAVA = f"install Java {_LEAST_JAVA} or later, e.g. apt-get install openjdk-17-jre-headless, or set JAVA_HOME"

#: Settings that decide where a text file is cut into blocks. The name of a row has its block and its place there, so a batch that runs
#: again must cut alike, even on a machine with other cores: a checkpoint keeps these values.
SPLITTING: Mapping[str, str] = {
    "spark.sql.files.maxPartitionBytes": str(128 * 2**20),
    "spark.sql.files.openCostInBytes": str(4 * 2**20),
    "spark.sql.files.minPartitionNum": str(max(2, os.cpu_count() or 2)),
}

#: Starts a worker with compiled sources.
_WORKER_PYTHON = Path(__file__).with_name("worker-python")

_STATE_STORE = "spark.sql.streaming.stateStore"

#: Settings of a session, which can be given at any time; the others only when Spark starts.
_SQL: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # More partitions than cores cost more than they balance: every one is a state store to commit each batch.
    # A power of 2 gives each of them as many buckets, as long as their number is one.
    "spark.sql.shuffle.partitions": str(2 ** (max(2, os.cpu_count() or 2).bit_length() - 1)),
    f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    # The time after which an idle query reports that it is idle; `--once` waits for the report.
    "spark.sql.streaming.noDataProgressEventInterval": "250ms",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # Spark separates workers by this setting, and stateful workers never have it: with it every pipeline would have two parents of
    # workers, of 100 MB and a second of CPU each, and no worker would do both. An error's line is the same.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Bytes are bounded too, so that a batch of large bodies stays below Arrow's 2 GiB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 2**20),
    **SPLITTING,
}


def open_session(
    conf: Mapping[str, str] | None = None, *, log: Path | None = None, inherit: Sequence[int] = ()
) -> SparkSession:
    """Open a Spark session for pipelines; `conf` overrides our settings. In a process with a running Spark it is a new session of that
    Spark, whose fixed settings (``spark.master``, memory, …) stay. `log`: a file for the standard error of Spark and its workers. None: the
    standard error of this process. `inherit`: open files that Spark's process keeps open as long as it lives, such as a lock.
    """
    wanted = dict(conf or {})
    running = SparkSession.getActiveSession() or _default_session()
    if running is None:
        session = _start(wanted, log, inherit)
    else:
        session = running.newSession()
        for name, value in {**_SQL, **{k: v for k, v in wanted.items() if running.conf.isModifiable(k)}}.items():
            _set(session, name, value)
    return session


@contextmanager
def session_for_a_look(at: str) -> Iterator[SparkSession]:
    """A session for a look at a pipeline of this name. Spark ends with the block, unless it ran before."""
    shared = is_running()
    session = open_session({"spark.app.name": at})
    try:
        yield session
    finally:
        if not shared:
            session.stop()


def is_running() -> bool:
    return _context() is not None


def has_ended(session: SparkSession, within_s: float = 0.0) -> bool:
    """Return whether the process of Spark has ended, or ends soon; a Spark process that started this process is not asked. A connection to
    it may break a moment before its end is visible. Only who doesn't answer is waited for.
    """
    # Spark has no public way to ask.
    process: subprocess.Popen[bytes] | None = getattr(session.sparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is None or (within_s and _works(session)):
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(within_s)
    return process.returncode is not None


def _works(session: SparkSession) -> bool:
    """Whether the process of Spark answers, and isn't about to end: it stops its context first."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001 -- nothing public asks
    except (
        Py4JError,
        OSError,
        AttributeError,
    ):  # py4j's own errors, and an AttributeError after Python has stopped the context
        return False


def _context() -> SparkContext | None:
    # `getOrCreate` would start Spark; there is no public way only to ask.
    return SparkContext._active_spark_context  # noqa: SLF001


def _default_session() -> SparkSession | None:
    context = _context()
    return SparkSession(context) if context is not None else None


def _set(session: SparkSession, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except Exception as error:  # py4j raises whatever the JVM raised
        raise UsageError(f"Spark refuses {value!r}: {str(error).splitlines()[0]}", where=name) from error


def _fixed(wanted: Mapping[str, str]) -> dict[str, str]:
    master = wanted.get("spark.master", "local[*]")
    python = wanted.get("spark.pyspark.python", sys.executable)
    settings = {
        "spark.master": master,
        "spark.app.name": "seriatim",
        "spark.pyspark.python": _python_of_workers(python) if _is_local(master) else python,
        "spark.pyspark.driver.python": python,
        "spark.driver.memory": f"{_heap_bytes() // 2**20}m",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # PySpark would ask the JVM a dozen times for each column and frame, in order to name our line in errors.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.extraJavaOptions": f'-Dlog4j2.configurationFile="{Path(__file__).with_name("log4j2.properties")}"',
    }
    if _is_local(master):
        # Ctrl-C is sent to all processes of a terminal: the workers must leave it to the driver.
        settings["spark.python.daemon.module"] = "seriatim.spark.session.daemon"
    if _is_local(master) or _LOOPBACK.match(master):
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return settings


def _is_local(master: str) -> bool:
    """Whether the executor is the driver's own process; otherwise executors run elsewhere and have only the files sent to them."""
    return master.startswith("local") and not master.startswith("local-cluster")


def _python_of_workers(python: str) -> str:
    """The program that starts this machine's workers: `worker-python`, if it does the same as this interpreter in less time."""
    # Not where another Spark than the installed PySpark runs, or where another program started it.
    installed = Path(pyspark.__file__).parent
    own = Path(os.environ.get("SPARK_HOME", installed)) == installed and "PYSPARK_GATEWAY_PORT" not in os.environ
    starts = own and python == sys.executable and installed.is_dir() and os.access(_WORKER_PYTHON, os.X_OK)
    return str(_WORKER_PYTHON) if starts else python


def _heap_bytes() -> int:
    """A quarter of the memory, between 1 and 8 GiB: RocksDB and the Python workers need memory outside the heap."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(8 * _GIB, max(_GIB, memory // 4))


def _start(wanted: Mapping[str, str], log: Path | None, inherit: Sequence[int]) -> SparkSession:
    find_java()
    streams: dict[str, Any] = {}
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        streams = {"stderr": log.open("wb")}
    try:
        context = _context_of(wanted, _Process(streams, pass_fds=tuple(inherit)))
        return SparkSession(context)
    except PySparkRuntimeError as error:
        where = f"{log}" if log is not None else ""
        raise EnvironmentProblem(
            "Spark did not start", where=where, remedy="run `seriatim doctor --pipelines`"
        ) from error
    except Exception as error:  # py4j raises whatever the JVM raised
        raise EnvironmentProblem(
            f"Spark did not start: {_first_line(error)}", remedy="run `seriatim doctor --pipelines`"
        ) from error
    finally:
        for stream in streams.values():
            stream.close()


class _Process(dict[str, Any]):
    """Starts Spark's process like PySpark, which makes it ignore SIGINT, and makes it ignore SIGTERM, too. `timeout` and others send
    SIGTERM to a whole group of processes, and then the driver finishes the present batch. Spark's process ends with the driver, however
    that ends.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "preexec_fn":
            value = _deaf_to_sigterm(value)
        super().__setitem__(name, value)


def _deaf_to_sigterm(before: Callable[[], None]) -> Callable[[], None]:
    def prepare() -> None:
        before()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return prepare


def _context_of(wanted: Mapping[str, str], process: _Process) -> SparkContext:
    """Start Spark with our settings and the given ones; `process`: starts its process."""
    gateway = None
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started this process, and has chosen its place
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        wanted = {**dict(SparkConf(_jvm=gateway.jvm).getAll()), **wanted}
    settings = {**_fixed(wanted), **_SQL, **wanted}
    # PySpark asks the environment first, and otherwise takes the first `python3` on PATH.
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    os.environ["SERIATIM_PYTHON"] = sys.executable  # for `worker-python`
    os.environ.pop("PYSPARK_DRIVER_PYTHON", None)
    configured = SparkConf().setAll(list(settings.items()))
    if gateway is None:
        gateway = launch_gateway(configured, popen_kwargs=process)  # type: ignore[no-untyped-call]
    context = SparkContext(conf=configured, gateway=gateway)
    # When the JVM dies, PySpark's server of accumulators prints a stack trace; the calls that wait for the JVM raise the error.
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign] # noqa: SLF001 -- nothing public silences it
    if not _is_local(settings["spark.master"]):
        ship(context)
    return context


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text_lines = [line for line in lines if not line.startswith(("An error occurred", "at "))]
    return (text_lines or lines or [type(error).__name__])[0]


@dataclass(frozen=True, slots=True)
class JavaFound:
    path: Path
    version: int


def find_java() -> JavaFound:
    """The Java that Spark will use. Raises `EnvironmentProblem`: Java is missing or too old; names the package to install."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise EnvironmentProblem("there is no Java on this machine", where="PATH", remedy=_INSTALL_JAVA)
    try:
        version_text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentProblem(
            "Java doesn't run", where=f"JAVA_HOME={home}" if home else java, remedy=_INSTALL_JAVA
        ) from error
    version = re.search(r'version "(?:1\.)?(\d+)', version_text)
    if version is None:
        raise EnvironmentProblem(f"this is not Java: {version_text[:80]!r}", where=java, remedy=_INSTALL_JAVA)
    if int(version[1]) < _LEAST_JAVA:
        raise EnvironmentProblem(f"Java {version[1]} is too old for Spark", where=java, remedy=_INSTALL_JAVA)
    return JavaFound(Path(java), int(version[1]))
