"""A sender of HL7 over MLLP, written from the standard, not from ours."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import ClassVar


def adt(control_id: str, patient: str = "p1", *, number: int | str = "", time: str = "20261129", sender: str = "LAB", more: str = "",
        charset: str = "", event: str = "A01") -> bytes:  # fmt: skip
    """An ADT message, in Latin-1 if it names a character set."""
    msh = f"MSH|^~\\&|{sender}|WARD|HIS|MAIN|{time}||ADT^{event}^ADT_A01|{control_id}|P|2.5|{number}|||||{charset}"
    text = f"{msh}\rEVN|{event}|20261128\rPID|1||{patient}^^^MAIN^MR||Müller^Anna{more}\r"
    return text.encode("latin-1" if charset else "utf-8")


@dataclass
class Ack:
    code: str
    control_id: str
    text: str
    expected: str


class Sender:
    """A connection; `close_all` closes those of a test."""

    opened: ClassVar[list[Sender]] = []

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 30)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self.opened.append(self)
        self._rest = b""

    def send(self, message: bytes) -> None:
        self.socket.sendall(b"\x0b" + message + b"\x1c\r")

    def answer(self) -> Ack | None:
        """The next acknowledgement; None: the connection was closed."""
        while b"\x1c\r" not in self._rest:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._rest += data
        frame, _, self._rest = self._rest.partition(b"\x1c\r")
        assert frame[:1] == b"\x0b"
        msa = frame.split(b"\r")[1].decode().split("|")
        assert msa[0] == "MSA"
        return Ack(*(msa[1:5] + [""] * 4)[:4])

    def says(self, message: bytes) -> Ack | None:
        self.send(message)
        return self.answer()

    def close(self) -> None:
        self.socket.close()

    @classmethod
    def close_all(cls) -> None:
        while cls.opened:
            cls.opened.pop().close()
