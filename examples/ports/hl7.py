"""A ward sends admissions over MLLP, one of them twice; they leave over MLLP, each patient in order: ``python -m examples.ports.hl7``."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from typing import ClassVar

from examples.ports.passing import send_on, taking

import seriatim as sq
from seriatim.endpoints import MllpPort
from seriatim.runtime.ports.mllp import MllpSource

PATIENTS, EACH = 3, 4


def admission(patient: int, number: int) -> bytes:
    """A message of the ward."""
    return f"MSH|^~\\&|WARD|EAST|HIS|MAIN|20261129||ADT^A01|{patient}-{number}|P|2.5\rPID|1||p{patient}\r".encode()


def send(address: str, messages: list[bytes]) -> list[str]:
    """Send messages over one connection, and return the code of each acknowledgement."""
    host, _, port = address.rpartition(":")
    codes = []
    with socket.create_connection((host, int(port)), 30) as connection, connection.makefile("rb") as answers:
        for message in messages:
            connection.sendall(b"\x0b" + message + b"\x1c\r")
            answer = b""
            while not answer.endswith(b"\x1c\r"):
                answer += answers.read(1)
            codes.append(answer.split(b"MSA|")[1][:2].decode())
    return codes


class Receiver(socketserver.StreamRequestHandler):
    """The other system: it acknowledges each message, and notes its patient and its id."""

    got: ClassVar[list[tuple[str, str]]] = []

    def handle(self) -> None:
        """Answer the messages of a connection."""
        message = b""
        while byte := self.rfile.read(1):
            message += byte
            if message.endswith(b"\x1c\r"):
                header, patient = (line.split(b"|") for line in message.split(b"\r")[:2])
                self.got.append((patient[3].decode(), header[9].decode()))
                self.wfile.write(b"\x0bMSH|^~\\&|HIS|MAIN|WARD|EAST|1||ACK|1|P|2.5\rMSA|AA|" + header[9] + b"\r\x1c\r")
                message = b""


class Server(socketserver.ThreadingTCPServer):
    """Listens for it."""

    daemon_threads = True


def main(box: sq.MessageBox) -> dict[str, list[str]]:
    """Return, by patient, the ids of the messages that have left, in the order in which the receiver got them."""
    Receiver.got.clear()
    box.define(
        sq.MessageType("ADT^A01", properties={"patient": "string"}),
        sq.Queue("visits", sq.Fifo(), group="patient"),
        sq.Subscription("visits", where="type = 'ADT^A01'", to="visits"),
    )
    source = MllpSource("127.0.0.1:0", name="ward", properties={"patient": "PID-3"})
    with taking(sq.ReceivePort(box, source)):
        while source.address is None:
            threading.Event().wait(0.05)
        messages = [admission(patient, number) for number in range(EACH) for patient in range(PATIENTS)]
        assert send(source.address, [*messages, messages[0]]) == ["AA"] * (len(messages) + 1)
    with Server(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever).start()
        send_on(box, "visits", MllpPort(f"127.0.0.1:{server.server_address[1]}"))
        server.shutdown()
    found: dict[str, list[str]] = {}
    for patient, message in Receiver.got:
        found.setdefault(patient, []).append(message)
    return found


if __name__ == "__main__":
    with sq.MessageBox.open(*sys.argv[1:]) as opened:
        for patient, ids in sorted(main(opened).items()):
            print(patient, *ids)
