"""Become a lone worker of Spark, forked or newly started; see `lone_workers.py`. Starts without `site`, to be fast.

Arguments: the file of the parent's socket, `-m`, and the module that the worker runs.
"""

import os
import socket
import sys

#: Spark waits 10 seconds for a worker.
_PATIENCE_S = 3.0


def request(module: str) -> bytes:
    """The request of a lone worker: the module that it runs, and the folder and the environment of this process."""
    folder = os.getcwdb()  # noqa: PTH109 -- a path is slow to import
    return b"\0".join((os.fsencode(module), folder, *(b"%s=%s" % pair for pair in os.environb.items())))


def _is_forked(file: str, module: str) -> bool:
    with socket.socket(socket.AF_UNIX) as parent:
        parent.settimeout(_PATIENCE_S)
        try:
            parent.connect(file)
            socket.send_fds(parent, [b"+"], [0, 1, 2])
            parent.sendall(request(module))
            parent.shutdown(socket.SHUT_WR)
            if not parent.recv(1):
                return False
        except OSError:
            return False
        parent.settimeout(None)
        parent.recv(1)
    return True


if __name__ == "__main__":
    _, file, *arguments = sys.argv
    if not _is_forked(file, arguments[-1]):
        python = os.environ["SERIATIM_PYTHON"]
        os.execv(python, [python, *arguments])  # noqa: S606 -- no shell is wanted
