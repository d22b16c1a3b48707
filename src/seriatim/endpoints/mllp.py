"""The MLLP port: sends each message's body to a receiver of HL7 v2, at least once, and waits until it is acknowledged."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from pathlib import Path

from seriatim.certificates import TlsFiles
from seriatim.endpoints.delivery import Delivered, Transaction, given_messages, in_hand, seconds_of
from seriatim.endpoints.hl7 import FrameReader, FrameTooLarge, Header, NotFramed, framed
from seriatim.errors import Business, EnvironmentProblem, Transient, UsageError, shown
from seriatim.network import watch
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Received

_LARGEST_ANSWER = 1_000_000
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):(\d{1,5})", re.ASCII)


class MllpPort:
    """A handler that sends to an address. Threads share one; each has a connection of its own. An acknowledgement counts only if it names
    the message that was sent: after any other answer, or none in time, the connection is closed, and the message is sent again.

    Args:
        address: ``HOST:PORT``.
        timeout: seconds for a message as a whole: connecting, sending it, and its acknowledgement.
        tls: whether to use TLS; a file that is given means it, too.
        authority: a file with the certificates of the authority that signs the receiver, PEM; None: the system's authorities.
        certificate: a file with the certificate of this side and its chain, PEM, if the receiver asks for one.
        key: a file with its private key, PEM. Replaced files are read again.

    Raises:
        UsageError: a parameter is wrong.
        EnvironmentProblem: a file can't be used.
    """

    @typed
    def __init__(
        self,
        address: str,
        *,
        timeout: float | str = 30.0,
        tls: bool = False,
        authority: str | Path | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
    ) -> None:
        found = _ADDRESS.fullmatch(address)
        if found is None or not 0 < int(found[2]) < 65536:
            raise UsageError(f"address can't be {shown(address)}", remedy="HOST:PORT, such as hospital.example:2575")
        self._host, self._port = found[1].strip("[]"), int(found[2])
        self._timeout = seconds_of(timeout)
        #: The host, for errors.
        self.place = f"{self._host}:{self._port}"
        files = TlsFiles(certificate, key, authority, f"mllp {self.place}")
        self._files = files if tls or authority or certificate else None
        if self._files is not None:
            self._files.for_client()
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []

    def __call__(self, received: Received | Delivered, tx: Transaction) -> None:
        """Send the given messages, one after another; each is acknowledged before the next one."""
        in_hand(tx)
        for message in given_messages(received):
            self._send(message)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()

    def _send(self, message: Received) -> None:
        header = Header.of(message.body)
        if header is None or not header.control_id:
            raise Business("the body isn't HL7: it has no MSH segment with a control id (MSH-10)")
        if b"\x0b" in message.body or b"\x1c" in message.body:
            raise Business("the body contains a byte that MLLP uses for its frames (0x0B or 0x1C)")
        connection, answer = self._exchanged(framed(message.body))
        said = Header.of(answer)
        # As bytes: the character set of either side needn't be known.
        if said is None or said.bytes_at("MSA-2") != header.bytes_at("MSH-10"):
            connection.close()  # a late answer, of an earlier message: the next one could be late, too
            of = "" if said is None else said.shown_at("MSA-2")
            raise Transient(f"the answer acknowledges {shown(of)}, not this message", where=self.place)
        with self._lock:
            self._idle.append(connection)
        code, text = said.shown_at("MSA-1"), said.shown_at("MSA-3")
        if code in ("AA", "CA"):
            return
        problem = f"the answer was {code or 'no acknowledgement'}{f': {text}' if text else ''}"
        if code in ("AR", "CR"):
            raise Transient(problem, where=self.place)
        raise Business(problem, where=self.place)

    def _exchanged(self, frame: bytes) -> tuple[_Connection, bytes]:
        """Send a frame; return the connection that it took, and the frame that came back."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        deadline = time.monotonic() + self._timeout
        try:
            if connection is None or connection.is_gone():
                connection = _Connection(self._host, self._port, self._files, deadline)
            return connection, connection.exchange(frame, deadline)
        except EnvironmentProblem as error:  # a file was replaced
            raise Transient(str(error), where=self.place) from None
        except (OSError, NotFramed, FrameTooLarge) as error:
            if connection is not None:
                connection.close()
            why = getattr(error, "verify_message", None) or str(error) or type(error).__name__
            raise Transient(f"no acknowledgement within {self._timeout:g} s: {why}", where=self.place) from None


class _Connection:
    """A connection, on which one message is under way at a time."""

    def __init__(self, host: str, port: int, files: TlsFiles | None, deadline: float) -> None:
        context = None if files is None else files.for_client()
        self._socket = socket.create_connection((host, port), max(deadline - time.monotonic(), 0.001))
        watch(self._socket)
        if context is not None:
            try:
                self._limit(deadline)
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            except OSError:
                self._socket.close()
                raise

    def is_gone(self) -> bool:
        """Whether the other side has closed it, or has said something that nobody has asked for: that would be a late answer."""
        try:
            self._socket.setblocking(False)
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            pass
        self.close()
        return True

    def exchange(self, frame: bytes, deadline: float) -> bytes:
        """Send a frame, and return the next one that comes."""
        self._limit(deadline)
        self._socket.sendall(frame)
        reader = FrameReader(_LARGEST_ANSWER)
        while True:
            self._limit(deadline)
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionResetError("the connection was closed")
            for message in reader.feed(data):
                return message

    def _limit(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)

    def close(self) -> None:
        self._socket.close()
