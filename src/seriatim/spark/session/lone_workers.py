"""The parent of Spark's lone workers: forks each of them from a process that has loaded their modules.

Spark starts some workers of a streaming query without its daemon: its source in Python, and the announcement of each
stateful operator's state. Each would begin Python anew, and load pandas, Arrow and this package. `worker-python` starts
`lone_worker.py` in place of such a worker, which asks this parent for a fork, hands over its open files and its
environment, and stays until the worker ends: Spark reads the worker's output from it. Where no parent answers, or the
worker's environment differs in more than variables of Spark and of this package, it becomes a worker of the usual kind.

The parent is forked from Spark's daemon, so it costs no loading. It ends with the process that started the daemon.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import socket
import sys
from pathlib import Path

from seriatim.spark.session.lone_worker import request

#: Names the file of the parent's socket; `worker-python` sets it.
_FILE = "SERIATIM_LONE_WORKERS"
#: Variables of Spark and of this package, in which a worker may differ from the daemon; Python reads none of them when it starts.
_OF_SPARK = (b"SPARK_", b"PYSPARK_", b"PYTHON_", b"OMP_NUM_THREADS=", b"SERIATIM_")
#: The modules that lone workers load beyond the daemon's workers.
_MODULES = ("pyspark.worker", "pyspark.sql.worker.plan_data_source_read", "seriatim.spark.control.source")


def worker_to_be() -> str | None:
    """Start the parent, unless there is one. None in the calling process; in every lone worker the module that it runs."""
    file = os.environ.get(_FILE)
    if file is None:
        return None
    listening = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o077)  # a stranger must not make this user run modules
    try:
        listening.bind(file)
    except OSError:  # another daemon of this Spark has a parent, or the name is too long for a socket
        listening.close()
        return None
    finally:
        os.umask(mask)
    listening.listen(128)
    if os.fork():
        listening.close()
        return None
    return _serve(listening, file)


def _serve(listening: socket.socket, file: str) -> str:
    for module in _MODULES:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the exit codes of workers aren't needed
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    # The daemon reads this pipe. It breaks when Spark stops the daemon, and when Spark's process ends for any reason.
    poll.register(0, 0)
    while all(ready == listening.fileno() for ready, _ in poll.poll()):
        asking, _ = listening.accept()
        if not os.fork():
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _become(asking)
        asking.close()
    Path(file).unlink()
    os._exit(0)


def _become(asking: socket.socket) -> str:
    """Take the place of the process that asks; end this process where that fails."""
    _, files, _, _ = socket.recv_fds(asking, 1, 3)
    with asking.makefile("rb") as stream:
        module, *wanted = stream.read().split(b"\0")
    _, *present = request("").split(b"\0")
    if len(files) != 3 or _fixed(wanted) != _fixed(present):
        os._exit(0)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environb.clear()
    for pair in wanted[1:]:
        name, _, value = pair.partition(b"=")
        os.environb[name] = value
    del sys.argv[1:]
    asking.sendall(b"+")
    asking.detach()  # stays open until the worker ends
    return os.fsdecode(module)


def _fixed(of_process: list[bytes]) -> set[bytes]:
    return {option for option in of_process if not option.startswith(_OF_SPARK)}
