"""A port for a server that is killed and started again at the same one."""

from __future__ import annotations

import socket

__all__ = ["free_port"]


def free_port() -> int:
    """A port of this machine at which nobody listens. It stays taken until this process ends, so that the system gives it to nobody by
    chance; a server that names it, and allows that addresses are reused (SO_REUSEADDR), gets it.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = int(held.getsockname()[1])
    held.detach()  # open until the end of the process
    return port
