"""A peer that speaks HTTP in any way: it answers with given bytes, as slowly as it is told, and notices who goes away."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

#: What a peer does with a connection.
Behaviour = Callable[["Peer"], None]


@dataclass
class Peer:
    """One connection, seen from the side of the receiver."""

    connection: socket.socket
    over: threading.Event

    def request(self) -> None:
        """Read until the headers are whole, and the body too where the peer sends one as told."""
        got = b""
        while b"\r\n\r\n" not in got:
            got += self._more()
        head, _, body = got.partition(b"\r\n\r\n")
        (length,) = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-l")]
        while len(body) < length:
            body += self._more()

    def say(self, pieces: Iterable[bytes], every_s: float = 0.0) -> None:
        """Send, one piece after another, for as long as the other side is there."""
        for piece in pieces:
            if every_s:
                self.wait(every_s)
            self.connection.settimeout(None)
            self.connection.sendall(piece)

    def wait(self, seconds: float | None = None) -> None:
        """Do nothing for a while, or until the other side goes."""
        self.connection.settimeout(seconds)
        with suppress(TimeoutError):
            while self._more():
                pass

    def sip(self, most_bytes: int, every_s: float) -> None:
        """Read little by little."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        while not self.over.wait(every_s) and self.connection.recv(most_bytes):
            pass

    def reset(self) -> None:
        """Break off, so that the other side notices at once."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _more(self) -> bytes:
        more = self.connection.recv(65_536)
        if not more:
            raise ConnectionError
        return more


@contextmanager
def behaving(behave: Behaviour) -> Iterator[str]:
    """The address of a peer that does the same with each connection, while the block runs."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    serving: list[tuple[threading.Thread, socket.socket]] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            behave(Peer(connection, over))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                thread = threading.Thread(target=serve, args=(connection,), daemon=True)
                serving.append((thread, connection))
                thread.start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()
        listening.close()
        for thread, connection in serving:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()
