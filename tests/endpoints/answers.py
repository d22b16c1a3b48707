"""Answers of HTTP as a fuzzer makes them: whole, cut, slow, huge, odd, or none at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from tests.endpoints.peer import Peer

AGAIN = {408, 425, 429}


@dataclass(frozen=True)
class Answer:
    """What a receiver says, how it says it, and what has to become of the message: None where nobody can tell.

    `ending`: of the connection, after all was said: ``keep``, ``close``, ``reset``, ``silence`` or ``on`` (it goes on
    with the last byte for ever).
    """

    said: bytes
    ending: str
    every_s: float
    first: bool
    outcome: str | None

    def __call__(self, peer: Peer) -> None:
        """Behave like that."""
        while True:
            if not self.first:
                peer.request()
            slow = self.every_s > 0
            peer.say(([self.said[at : at + 1] for at in range(len(self.said))] if slow else [self.said]), self.every_s)
            if self.ending == "on":
                peer.say(itertools.repeat((self.said or b"\0")[-1:] * (1 if slow else 4096)), self.every_s)
            if self.ending == "silence":
                peer.wait()
            if self.ending == "reset":
                peer.reset()
            if self.ending != "keep":
                return
            if self.first:
                peer.wait()


def answers(random: Random, count: int) -> Iterable[Answer]:
    """That many."""
    for _ in range(count):
        yield _plain(random) if random.random() < 0.3 else _odd(random)


def _plain(random: Random) -> Answer:
    """One that is right, and whose outcome is known."""
    status = random.choice(
        [200, 201, 202, 204, 299, 300, 301, 302, 304, 307, 400, 404, 408, 409, 425, 429, 500, 503, 599]
    )
    body = b"" if status in (204, 304) else random.randbytes(random.choice([0, 1, 200, 70_000]))
    interim = b"".join(
        b"HTTP/1.1 %d Wait\r\n\r\n" % random.choice([100, 102, 103, 199]) for _ in range(random.choice([0, 0, 1, 50]))
    )
    lines = [b"HTTP/1.1 %d %s" % (status, random.choice([b"", b"OK", b"Not OK", b"caf\xe9"]))]
    lines += [_header(random) for _ in range(random.choice([0, 1, 5, 80]))]
    if status in (204, 304):
        framed = b""
    elif random.random() < 0.5:
        lines.append(b"Content-Length: %d" % len(body))
        framed = body
    else:
        lines.append(b"Transfer-Encoding: chunked")
        framed = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in _cut(random, body)) + b"0\r\n\r\n"
    outcome = "done" if status < 300 else "transient" if status in AGAIN or status >= 500 else "business"
    return Answer(interim + b"\r\n".join(lines) + b"\r\n\r\n" + framed, "keep", 0.0, first=False, outcome=outcome)


def _odd(random: Random) -> Answer:
    """One in which something is wrong."""
    said = _plain(random).said
    for _ in range(random.choice([0, 1, 1, 2])):
        said = random.choice(_WRONGS)(random, said)
    ending = random.choice(["keep", "close", "reset", "silence", "on"])
    every_s = 0.005 if random.random() < 0.15 else 0.0
    return Answer(said, ending, every_s, first=random.random() < 0.15, outcome=None)


def _header(random: Random) -> bytes:
    name = random.choice(
        [b"Retry-After", b"Date", b"Location", b"Set-Cookie", b"Content-Encoding", b"Connection", b"Content-Type", b"X"]
    )
    value = random.choice(
        [
            b"", b"7", b"-1", b"\xb2", b"9" * 400, b"soon", b"gzip", b"gzip, br", b"close", b"keep-alive", b"upgrade",
            b"Fri, 01 May 2026 12:02:00 GMT", b"Fri, 01 May 99999999999999999999 12:02:00 GMT", b"Fri, 31 Feb 0000",
            b"Fri, 01 May 2026 12:02:00 +99999999", b"1 1 1 1 1 1 1", b"http://[::", b"http://x:99999/", b"//", b"\xff\xfe",
            b"a=b; Expires=" + b"1" * 500, b"text/html; charset=none", b"=?utf-8?q?=00?=", b"x" * random.randrange(9000),
        ]
    )  # fmt: skip
    return name + b": " + value


def _cut(random: Random, body: bytes) -> list[bytes]:
    pieces = []
    while body:
        length = random.choice([1, 7, 5_000])
        pieces.append(body[:length])
        body = body[length:]
    return pieces


def _cut_off(random: Random, said: bytes) -> bytes:
    return said[: random.randrange(len(said) + 1)]


def _bytes_changed(random: Random, said: bytes) -> bytes:
    changed = bytearray(said)
    for _ in range(random.choice([1, 3, 30])):
        if changed:
            changed[random.randrange(min(len(changed), 400))] = random.randrange(256)
    return bytes(changed)


def _start(random: Random, said: bytes) -> bytes:
    first = random.choice(
        [
            b"", b"\r\n\r\n", b"HTTP/0.9 200 OK\r\n", b"HTTP/2.0 200 OK\r\n", b"HTTP/1.1 20 OK\r\n", b"HTTP/1.1 2000\r\n",
            b"HTTP/1.1 000 \r\n", b"HTTP/1.1 999 \r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n",
            b"HTTP/1.1 -200 OK\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x28", b"<html>",
            b"HTTP/1.0 200\n", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 " + b"O" * 200_000,
        ]
    )  # fmt: skip
    return first + said[said.find(b"\r\n") + 2 :]


def _headers(random: Random, said: bytes) -> bytes:
    more = random.choice(
        [
            b"Content-Length: -1", b"Content-Length: 5, 6", b"Content-Length: " + b"9" * 30, b"Content-Length: 0x5",
            b"Content-Length: 3\r\nContent-Length: 4", b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked, chunked",
            b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"no colon", b": empty", b" folded", b"\tX: y", b"X : y",
            b"X: a\0b", b"X\0: y", b"X: a\rb", b"Content-Length:", b"X: " + b"y" * 150_000, b"\r\n".join([b"X: y"] * 3_000),
        ]
    )  # fmt: skip
    at = said.rfind(b"\r\n\r\n")
    return said[:at] + b"\r\n" + more + said[at:]


def _chunks(random: Random, said: bytes) -> bytes:
    at = said.rfind(b"\r\n\r\n")
    size = random.choice(
        [b"ffffffffffffffffffff", b"-1", b"", b"g", b"5;" + b"x" * 100_000, b"0x5", b"5 ", b"00000000005", b"5\n"]
    )
    return said[:at] + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\nhello\r\n0\r\nX: y\r\n\r\n"


def _flood(random: Random, said: bytes) -> bytes:
    return b"HTTP/1.1 100 Continue\r\n\r\n" * random.choice([1_000, 20_000]) + said


def _more_behind(random: Random, said: bytes) -> bytes:
    return said + random.choice([b"\r\n", b"junk", said, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])


_WRONGS = (_cut_off, _cut_off, _bytes_changed, _bytes_changed, _start, _headers, _chunks, _flood, _more_behind)
