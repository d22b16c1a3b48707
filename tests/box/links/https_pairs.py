"""Two boxes for tests, of which one calls the other over HTTPS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import seriatim as sq
from seriatim.operations import links
from seriatim.runtime.processes.link_server import LinkLimits, LinkServer
from tests.box.links.pairs import ORDER, Pair
from tests.certificates import Authority, Files
from tests.databases import fresh_box

__all__ = ["HttpsPair", "asked_over_tls", "paired_over_https", "received", "received_with_head", "request"]


@dataclass(frozen=True)
class HttpsPair(Pair):
    """`near` has the address at which `server` listens for `far`; both sides have certificates of `authority`."""

    address: str
    authority: Authority
    near_files: Files
    far_files: Files

    def link(self, **fields: Any) -> sq.Link:
        return sq.Link("far", **{"url": self.address, **self.near_files.as_link(), **fields})

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@contextmanager
def paired_over_https(databases: Any, folder: Path, limits: LinkLimits | None = None) -> Iterator[HttpsPair]:
    """A pair: orders go from `near` to `far`, answers the other way."""
    authority = Authority(folder)
    near_files, far_files = authority.issued("near"), authority.issued("far")
    with fresh_box(databases) as near, fresh_box(databases) as far:
        server = LinkServer(
            far, "127.0.0.1:0", certificate=far_files.certificate, key=far_files.key, authority=far_files.authority,
            limits=limits,
        )  # fmt: skip
        server.start()
        try:
            pair = HttpsPair(near, far, "", server.address, authority, near_files, far_files)
            far.define(ORDER, sq.Queue("orders", group="customer", keep="everything"))
            accepted = {"certificate": near_files.certificate, "other": str(near.id), "queues": ["orders"]}
            links.accept(far, "near", **accepted, actor="test", reason="a test")
            near.define(
                ORDER,
                pair.link(queues=["answers"]),
                sq.Queue("orders", at="far", group="customer"),
                sq.Queue("answers", group="customer", keep="everything"),
            )
            far.define(sq.Queue("answers", at="near", group="customer"))
            yield pair
        finally:
            server.close()


@contextmanager
def asked_over_tls(port: int, files: Files) -> Iterator[ssl.SSLSocket]:
    """A connection as a box's, made with the standard library only."""
    context = ssl.create_default_context(cafile=files.authority)
    context.load_cert_chain(files.certificate, files.key)
    with (
        socket.create_connection(("127.0.0.1", port), 60) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
    ):
        yield connection


def request(path: str, body: bytes, *, length: int | None = None) -> bytes:
    """A request as the page of the protocol says it."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
    return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


def received(connection: Any) -> tuple[int, bytes]:
    """The status and the body of the next answer."""
    status, _, body = received_with_head(connection)
    return status, body


def received_with_head(connection: Any) -> tuple[int, dict[bytes, bytes], bytes]:
    """The status, the fields of the head and the body of the next answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := connection.recv(65_536)):
            raise ConnectionError(data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += connection.recv(65_536)
    return int(head.split()[1]), fields, body
