"""Addresses to listen at: ``HOST:PORT`` as text, or a path, and the socket."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from pathlib import Path

from seriatim.errors import EnvironmentProblem, UsageError, shown

#: Connections that wait to be accepted; more are the system's to refuse.
_BACKLOG = 128


def host_and_port(listen: str, example: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535 or (":" in host and host[:1] != "["):
        raise UsageError(f"cannot listen at {shown(listen)}", remedy=f"HOST:PORT, such as {example}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int, option: str) -> socket.socket:
    """Return a socket that listens at a host (empty: every interface) and a port (0: a free one)."""
    listener = None
    try:
        family, kind, proto, _, place = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except (OSError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        why = getattr(error, "strerror", None) or str(error)
        raise EnvironmentProblem(
            f"cannot listen at {host}:{port}: {why}", remedy=f"give another address with {option}"
        ) from None
    return listener


def listening_on_path(path: str, option: str) -> socket.socket:
    """Return a Unix socket that listens at a path; its owner and group may open it. A socket that a process has left there is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if Path(path).is_socket() and not _is_served(path):
            Path(path).unlink()
        listener.bind(path)
        Path(path).chmod(0o660)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except (OSError, ValueError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        raise EnvironmentProblem(f"cannot listen at {path}: {why}", remedy=f"give another path with {option}") from None
    return listener


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(ConnectionRefusedError):
        probe.connect(path)
        return True
    return False


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Return the address of a listening socket, such as ``http://127.0.0.1:8470``; for a Unix socket ``unix:`` and its path."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
