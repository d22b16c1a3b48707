"""A road to PostgreSQL that breaks where a test says: behind so many bytes of what the server answers."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self
from urllib.parse import parse_qs, urlsplit


class Cutting:
    """Takes connections on a port of its own and passes them on.

    Args:
        dsn: of the server, by its unix socket, as a URI.

    Attributes:
        dsn: of the road.
        left: so many more bytes of answers are passed on, then all connections break; None: they don't.
        instead: what comes in place of the rest.
        passed: how many bytes of answers have been passed on.
        taken: how many connections have been taken.
    """

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._server = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.dsn = (
            f"postgresql://{parts.username}@127.0.0.1:{self._listening.getsockname()[1]}{parts.path}?sslmode=disable"
        )
        self.left: int | None = None
        self.instead = b""
        self.passed = 0
        self.taken = 0
        self._forgotten = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self._break()

    def forget(self) -> None:
        """Swallow what comes by the present connections from now on, and leave them open, as a firewall that has forgotten them."""
        self._forgotten = self.taken

    def cut(self) -> None:
        """Break the present connections."""
        self._break()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.taken += 1
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._open += [client, server]
                threading.Thread(target=self._ask, args=(client, server, self.taken), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, number: int) -> None:
        with suppress(OSError):
            while asked := client.recv(65536):
                if number <= self._forgotten:
                    continue
                server.sendall(asked)
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(65536):
                if self.left is not None and len(answer) >= self.left:
                    client.sendall(answer[: self.left] + self.instead)
                    self.left = None
                    self._break()
                    return
                if self.left is not None:
                    self.left -= len(answer)
                self.passed += len(answer)
                client.sendall(answer)
            client.shutdown(socket.SHUT_RDWR)

    def _break(self) -> None:
        while self._open:
            one = self._open.pop()
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
