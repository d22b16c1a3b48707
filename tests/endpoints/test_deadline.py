"""The HTTP port has one deadline for an exchange, wherever the receiver is slow: each of these peers goes on for ever."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

import seriatim as sq
from seriatim import network
from seriatim.endpoints import HttpPort
from tests.endpoints.handed import hand, message
from tests.endpoints.peer import Peer, behaving

OFTEN_S = 0.02
LARGE = b"x" * 2**24


def forever(piece: bytes):
    return itertools.repeat(piece)


def slow_status(peer: Peer) -> None:
    peer.request()
    peer.say([b"HTTP/1.1 200 "])
    peer.say(forever(b"O"), OFTEN_S)


def slow_headers(peer: Peer) -> None:
    peer.request()
    peer.say([b"HTTP/1.1 200 OK\r\nX: "])
    peer.say(forever(b"y"), OFTEN_S)


def slow_body(peer: Peer) -> None:
    peer.request()
    peer.say([b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"])
    peer.say(forever(b"."), OFTEN_S)


def slow_chunks(peer: Peer) -> None:
    peer.request()
    peer.say([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"])
    peer.say(forever(b"1\r\n.\r\n"), OFTEN_S)


def flood_of_interim_answers(peer: Peer) -> None:
    peer.request()
    peer.say(forever(b"HTTP/1.1 100 Continue\r\n\r\n" * 100))


def slow_interim_answers(peer: Peer) -> None:
    peer.request()
    peer.say(forever(b"HTTP/1.1 102 Processing\r\n\r\n"), OFTEN_S)


def redirect_that_goes_on(peer: Peer) -> None:
    peer.request()
    peer.say([b"HTTP/1.1 302 Found\r\nLocation: /again\r\nTransfer-Encoding: chunked\r\n\r\n"])
    peer.say(forever(b"1\r\n.\r\n"), OFTEN_S)


def silence(peer: Peer) -> None:
    peer.request()
    peer.wait()


def slow_reader(peer: Peer) -> None:
    peer.sip(64, OFTEN_S)


@pytest.fixture
def _from_the_request_on(monkeypatch):
    """No time passes until the peer has got the request: it is the answer that takes too long, however busy the machine is."""
    began, reached, request = time.monotonic(), threading.Event(), Peer.request

    def noted(peer: Peer) -> None:
        request(peer)
        reached.set()

    monkeypatch.setattr(Peer, "request", noted)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() if reached.is_set() else began)
    monkeypatch.setattr(network, "time", clock)


@pytest.mark.usefixtures("_from_the_request_on")
@pytest.mark.parametrize(
    "behave",
    [
        slow_status,
        slow_headers,
        slow_body,
        slow_chunks,
        flood_of_interim_answers,
        slow_interim_answers,
        redirect_that_goes_on,
        silence,
    ],
)
def test_an_answer_that_goes_on_for_ever_is_given_up(behave):
    with behaving(behave) as place, closing(HttpPort(f"http://{place}/x", timeout=0.3)) as port:
        raised = hand(port, message())
    assert isinstance(raised, sq.Transient)
    assert raised.what == f"ReadTimeout, not done after 0.3 s at http://{place}"


def test_a_receiver_that_takes_little_by_little_is_given_up():
    with behaving(slow_reader) as place, closing(HttpPort(f"http://{place}/x", timeout=0.3)) as port:
        raised = hand(port, message(body=LARGE))
    assert isinstance(raised, sq.Transient)
    assert "WriteTimeout, not done after 0.3 s" in raised.what


def slow_handshake(peer: Peer) -> None:
    """A record of TLS that never ends, a byte at a time."""
    peer.say([b"\x16\x03\x03\x40\x00"])
    peer.say(forever(b"\x02"), OFTEN_S)


def test_a_handshake_that_goes_on_for_ever_is_given_up():
    with behaving(slow_handshake) as place, closing(HttpPort(f"https://{place}/x", timeout=0.3)) as port:
        raised = hand(port, message())
    assert isinstance(raised, sq.Transient)
    assert raised.what == f"ConnectTimeout, not done after 0.3 s at https://{place}"


def test_a_name_that_is_looked_up_for_ever_is_given_up(monkeypatch):
    from threading import Event

    never = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: never.wait() and [])
    with closing(HttpPort("http://shop.example/x", timeout=0.1)) as port:
        raised = hand(port, message())
    never.set()
    assert isinstance(raised, sq.Transient)
    assert raised.what == "ConnectTimeout, not done after 0.1 s at http://shop.example"


def test_each_address_of_a_name_is_tried(monkeypatch):
    def two(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, port)) for number in ("127.0.0.2", "127.0.0.1")]

    def answer(peer: Peer) -> None:
        peer.request()
        peer.say([b"HTTP/1.1 204 No Content\r\n\r\n"])

    with behaving(answer) as place:
        found = socket.getaddrinfo
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda host, *a, **k: (two if host == "a.example" else found)(host, *a, **k)
        )
        with closing(HttpPort(f"http://a.example:{place.split(':')[1]}/x", timeout=20)) as port:
            assert hand(port, message()) is None


@pytest.mark.parametrize("host", ["a..example", "x" * 64 + ".example", ".example"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_name_that_cannot_be_looked_up_is_no_fault_of_the_worker(scheme, host, monkeypatch):
    with closing(HttpPort(f"{scheme}://{host}/x", timeout=20)) as port:
        raised = hand(port, message())
    assert isinstance(raised, sq.Transient)


def test_a_connection_is_used_again_with_a_new_deadline():
    served = []

    def answer(peer: Peer) -> None:
        served.append(peer)
        while True:
            peer.request()
            peer.say([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])

    with behaving(answer) as place, closing(HttpPort(f"http://{place}/x", timeout=20)) as port:
        assert hand(port, *(message(n) for n in range(1, 6))) is None
        assert hand(port, message(6)) is None
    assert len(served) == 1
