"""Links over HTTPS: the same streams, between sides that prove who they are by certificates."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from psycopg.conninfo import conninfo_to_dict

import seriatim as sq
from seriatim.box.links.answers import FrameRefusal
from seriatim.box.links.certificates import public_key_in
from seriatim.box.links.https_carrier import HttpsCarrier
from seriatim.box.links.layout import LARGEST_FRAME
from seriatim.box.links.transmission import Roads, transmit
from seriatim.kernel.streams import StreamAnswer
from seriatim.listening.limits import CONNECTIONS
from seriatim.network import UNACKNOWLEDGED_S, watch
from seriatim.operations import links
from seriatim.operations.links import transmit as transmit_of_box
from seriatim.operations.looking import open_to_look
from seriatim.runtime.processes.link_server import LinkLimits, LinkServer
from tests import soak
from tests.box import roles
from tests.box.links import recorder
from tests.box.links.https_pairs import (
    HttpsPair,
    asked_over_tls,
    paired_over_https,
    received,
    received_with_head,
    request,
)
from tests.box.links.mutations import mutated
from tests.box.links.pairs import carried
from tests.certificates import Authority, openssl
from tests.faults.wire import Wire
from tests.models import link_frames

pytestmark = pytest.mark.dear

_WHY = {"actor": "test", "reason": "a test"}


@pytest.fixture
def pair(databases, tmp_path):
    with paired_over_https(databases, tmp_path) as both:
        yield both


def _asked(pair: HttpsPair) -> bytes:
    """The next batch of the near box."""
    with pair.near.access.transaction() as transaction:
        link_id = transaction.one("link_addresses", name="far").link_id
        return bytes(transaction.one("link_next", of_link=link_id, largest=0, at_once=True).frame)


def _fetch_of(pair: HttpsPair) -> bytes:
    with pair.near.access.transaction() as transaction:
        return bytes(transaction.value("link_request", of_link=1, largest=0))


def _state(box) -> list:
    return [
        roles.rows(box, f"SELECT count(*), md5(string_agg(one::text, '' ORDER BY one::text)) FROM box.{table} AS one")
        for table in ("link_streams_in", "link_streams_out", "link_numbers", "spool", "entries", "aside")
    ]


@pytest.mark.telling
def test_groups_arrive_in_order_and_once_both_ways(pair: HttpsPair):
    for nth in range(12):
        pair.send(nth, customer=f"c{nth % 3}")
    pair.send(20, 21, box=pair.far, queue="answers")
    (done,) = transmit_of_box(pair.near)
    assert (done.sent, done.acknowledged, done.received, done.error) == (12, 12, 2, None)
    assert (transmit_of_box(pair.near)[0].sent, transmit_of_box(pair.near)[0].received) == (0, 0)
    arrived = carried(pair.far)
    assert sorted(arrived) == sorted((f"c{nth % 3}", nth, False) for nth in range(12))
    for group in ("c0", "c1", "c2"):
        mine = [nth for of, nth, _ in arrived if of == group]
        assert mine == sorted(mine)
    assert carried(pair.near, "answers") == [("c1", 20, False), ("c1", 21, False)]
    for box in (pair.near, pair.far):
        (link,) = links.status(box)
        assert (link.state, link.unacknowledged, link.waiting, link.restored) == ("ok", 0, 0, 0)
    assert link.public_key == public_key_in(pair.near_files.certificate).hex()


def test_large_bodies_arrive_in_parts(pair: HttpsPair):
    body = random.Random(1).randbytes(6 * 2**20)
    sent = sq.Message(type="order", body=body, context={"to": "orders", "customer": "c1", "nth": 1})
    pair.near.publish(sent)
    while transmit_of_box(pair.near, at_once=True)[0].more:
        pass
    pair.far.tick()
    with pair.far.session() as tx:
        (message,) = list(tx.receive("orders"))
    assert message.body == body


def test_a_side_that_isnt_who_it_should_be_is_refused(pair: HttpsPair, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    cases = [
        (pair.authority.issued("unknown"), "doesn't know the key of this side's certificate"),
        (pair.authority.issued("past", days=-1), "doesn't take the certificate of this one: .*expired"),
        (stranger.issued("other"), "the certificate of the other side isn't to be trusted"),
    ]
    other = stranger.issued("another")
    shutil.copyfile(pair.near_files.authority, tmp_path / "trusted.pem")
    cases.append((type(other)(other.certificate, other.key, str(tmp_path / "trusted.pem")), "this one: .*unknown ca"))
    before = _state(pair.far)
    for files, told in cases:
        with pytest.raises(sq.EnvironmentProblem, match=told):
            links.add(pair.near, pair.link(**files.as_link()))
    with pytest.raises(sq.EnvironmentProblem, match="isn't to be trusted: Hostname mismatch"):
        links.add(pair.near, pair.link(url=pair.address.replace("127.0.0.1", "localhost")))
    assert _state(pair.far) == before
    assert links.add(pair.near, pair.link(queues=["answers"])).state == "ok"


def test_a_changed_key_is_refused_until_it_is_accepted(pair: HttpsPair):
    pair.send(1)
    assert transmit_of_box(pair.near)[0].acknowledged == 1
    # The same key, in a certificate that was made anew and with which the link goes on.
    pair.authority.issued("near", key=pair.near_files.key)
    pair.send(2)
    assert transmit_of_box(pair.near)[0].acknowledged == 1
    pair.authority.issued("near")
    pair.send(3)
    assert "doesn't know the key" in transmit_of_box(pair.near)[0].error
    accepted = {"certificate": pair.near_files.certificate, "other": str(pair.near.id), "queues": ["orders"], **_WHY}
    with pytest.raises(sq.ActionRefused, match="--replace"):
        links.accept(pair.far, "near", **accepted)
    with asked_over_tls(pair.port, pair.near_files) as connection:
        connection.sendall(request("/link/push", _asked(pair)))
        assert received(connection) == (403, b"this key isn't known\n")
    links.accept(pair.far, "near", replace=True, **accepted)
    assert transmit_of_box(pair.near, at_once=True)[0].acknowledged == 1
    assert [nth for _, nth, _ in carried(pair.far)] == [1, 2, 3]
    # One that is taken away is refused on a connection that is open.
    other = pair.authority.issued("next")
    links.accept(pair.far, "near", replace=True, **{**accepted, "certificate": other.certificate})
    assert "doesn't know the key" in transmit_of_box(pair.near)[0].error


def test_certificates_of_the_listener_are_read_again(pair: HttpsPair, tmp_path):
    def shown() -> bytes:
        with asked_over_tls(pair.port, pair.near_files) as connection:
            return hashlib.sha256(connection.getpeercert(binary_form=True)).digest()

    first = shown()
    pair.authority.issued("far", key=pair.far_files.key)
    second = shown()
    assert first != second
    (tmp_path / "far.pem").write_text("not a certificate")
    assert shown() == second


def test_a_box_speaks_as_no_other_and_a_key_as_one_box(pair: HttpsPair):
    transmit_of_box(pair.near)
    pair.send(1)
    lied = bytearray(_asked(pair))
    lied[8:24] = b"x" * 16
    fetch = bytearray(_fetch_of(pair))
    fetch[8:24] = b"x" * 16
    before = _state(pair.far)
    with asked_over_tls(pair.port, pair.near_files) as connection:
        connection.sendall(request("/link/push", recorder.sealed(bytes(lied[:-32]))))
        status, body = received(connection)
        answers = link_frames.read(body)
        assert (status, answers.answers["answer"].tolist(), answers.reasons) == (200, [StreamAnswer.GONE], [""])
        connection.sendall(request("/link/fetch", recorder.sealed(bytes(fetch[:-32]))))
        assert link_frames.read(received(connection)[1]).reason == "nothing is known of this"
    assert _state(pair.far) == before
    other = "00000000-0000-4000-8000-000000000001"
    with pytest.raises(sq.ActionRefused, match="speaks as another box, over link 'near'"):
        links.accept(pair.far, "next", certificate=pair.near_files.certificate, other=other, **_WHY)
    with pytest.raises(sq.UsageError, match="by a role or by a certificate"):
        links.accept(pair.far, "next", other=other, **_WHY)
    with pytest.raises(sq.UsageError, match="has no certificate in it"):
        links.accept(pair.far, "next", certificate=pair.near_files.key, other=other, **_WHY)


def test_a_copy_knows_no_keys(pair: HttpsPair):
    roles.rows(pair.far, "SELECT box.drop_link_pairs()")
    assert links.status(pair.far)[0].state == "unpaired"
    assert "doesn't know the key" in transmit_of_box(pair.near)[0].error


_BAD = [
    (request("/link/push", b"", length=LARGEST_FRAME + 1), 413),
    (request("/link/fetch", b"", length=4097), 413),
    (request("/link/push", b"", length=10**15), 413),
    (request("/", b""), 404),
    (b"GET /link/fetch HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    (b"POST /link/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
    (b"POST /link/push HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /link/push HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000, 431),
    (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
]


def test_requests_that_arent_right_are_refused(pair: HttpsPair):
    unknown = pair.authority.issued("unknown")
    before = _state(pair.far)
    for bad, status in _BAD:
        with asked_over_tls(pair.port, pair.near_files) as connection:
            connection.sendall(bad)
            assert received(connection)[0] == status, bad[:100]
            assert connection.recv(1) == b""
        if status in (400, 431):  # it is no request, whoever sends it
            continue
        # Who isn't let in isn't told even that.
        with asked_over_tls(pair.port, unknown) as connection:
            connection.sendall(bad)
            assert received(connection) == (403, b"this key isn't known\n"), bad[:100]
    assert _state(pair.far) == before


@contextmanager
def short(limits: LinkLimits, name: str) -> Iterator[None]:
    """One of the times of a server at work is short meanwhile; who is to be served has all of them long."""
    before = getattr(limits, name)
    object.__setattr__(limits, name, 1.0)
    try:
        yield
    finally:
        object.__setattr__(limits, name, before)


def test_clients_that_never_finish_are_cut_off(databases, tmp_path):
    limits = LinkLimits(
        connections=2, first_byte_s=600, handshake_s=600, head_s=600, idle_s=600, silent_s=600, of_key=1
    )
    with paired_over_https(databases, tmp_path, limits) as pair:
        for begun, over in ((b"", "first_byte_s"), (b"\x16\x03\x01", "handshake_s")):
            with short(limits, over), socket.create_connection(("127.0.0.1", pair.port), 60) as one:
                one.sendall(begun)
                assert one.recv(1) == b""
        for unfinished, told, over in (
            (b"", None, "head_s"),
            (b"POST /link/push HTT", 408, "head_s"),
            (request("/link/push", b"a" * 10, length=1000), 408, "silent_s"),
        ):
            with short(limits, over), asked_over_tls(pair.port, pair.near_files) as connection:
                connection.sendall(unfinished)
                if told is not None:
                    assert received(connection)[0] == told
                assert connection.recv(1) == b""
        pair.send(1)
        assert transmit_of_box(pair.near)[0].acknowledged == 1


def test_strangers_that_say_nothing_keep_no_box_out(pair: HttpsPair):
    """More connections than there is room for, and no deadline is over: the one that came first goes for each that comes."""
    with ExitStack() as held:
        for _ in range(2 * CONNECTIONS):
            held.enter_context(socket.create_connection(("127.0.0.1", pair.port), 60))
        pair.send(1)
        (done,) = transmit_of_box(pair.near)
        assert (done.acknowledged, done.error) == (1, None)


def test_a_connection_that_is_lost_in_the_middle_of_a_body_stops_nothing(pair: HttpsPair):
    """Nobody says that it is lost: the next one of the same key doesn't wait for its deadline, nor the one after that."""
    with asked_over_tls(pair.port, pair.near_files) as lost:
        lost.sendall(request("/link/push", b"a" * 10, length=1000))
        for nth in range(3):
            pair.send(nth)
            (done,) = transmit_of_box(pair.near, at_once=True)
            assert (done.acknowledged, done.error) == (1, None)


def test_connections_that_are_lost_between_two_requests_make_room(databases, tmp_path):
    """Those of a key that are idle, the oldest first; one that is new has room always."""
    with paired_over_https(databases, tmp_path, LinkLimits(of_key=2)) as pair, ExitStack() as held:
        for _ in range(4):
            lost = held.enter_context(asked_over_tls(pair.port, pair.near_files))
            lost.sendall(request("/link/fetch", _fetch_of(pair)))
            assert received(lost)[0] == 200


def test_of_a_key_two_bodies_are_in_memory(pair: HttpsPair):
    """The third one is read when one of them is over."""
    with ExitStack() as held:
        first, second, third = (held.enter_context(asked_over_tls(pair.port, pair.near_files)) for _ in range(3))
        for one in (first, second):
            one.sendall(request("/link/push", b"", length=16).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
            assert one.recv(100).startswith(b"HTTP/1.1 100 ")  # it is read
        third.sendall(request("/link/push", b"", length=16).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        first.sendall(b"x" * 16)
        assert received(first)[0] == 200
        assert third.recv(100).startswith(b"HTTP/1.1 100 ")


def test_both_sides_find_out_that_the_other_one_is_gone(pair: HttpsPair, monkeypatch):
    """The system asks who is silent, and gives up what isn't acknowledged, at both ends of a connection."""
    set_ = []

    def noted(one: socket.socket) -> None:
        watch(one)
        unacknowledged = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        set_.append((one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), unacknowledged))

    for place in ("seriatim.network.watch", "seriatim.listening.accepting.watch"):
        monkeypatch.setattr(place, noted)
    assert transmit_of_box(pair.near, at_once=True)[0].error is None
    assert set_ == [(1, 1000 * UNACKNOWLEDGED_S)] * 2


def test_an_answer_that_stops_in_its_middle_is_given_up(tmp_path, monkeypatch):
    """By the side that called: it doesn't wait for as long as the other one may take to begin."""
    monkeypatch.setattr("seriatim.box.links.https_carrier.SILENT_S", 0.3)
    authority = Authority(tmp_path)
    near, far = authority.issued("near"), authority.issued("far")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=near.authority)
    context.load_cert_chain(far.certificate, far.key)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads, ExitStack() as held:

        def stop_in_the_middle() -> None:
            connection = held.enter_context(context.wrap_socket(listener.accept()[0], server_side=True))
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")

        answered = threads.submit(stop_in_the_middle)
        link = sq.Link("far", url=f"https://127.0.0.1:{listener.getsockname()[1]}", **near.as_link())
        carrier = HttpsCarrier(link)
        with pytest.raises(sq.Unavailable, match="doesn't answer in time"):
            carrier.push(b"frame")
        answered.result(120)
        carrier.close()


def test_a_connection_that_is_old_is_closed_and_another_one_goes_on(databases, tmp_path):
    with paired_over_https(databases, tmp_path, LinkLimits(age_s=0.0)) as pair:
        transmit_of_box(pair.near)
        pair.send(1)
        for path, frame in (("/link/push", _asked(pair)), ("/link/fetch", _fetch_of(pair))):
            with asked_over_tls(pair.port, pair.near_files) as connection:
                connection.sendall(request(path, frame))
                head = received_with_head(connection)
                assert (head[0], head[1].get(b"connection")) == (200, b"close")
                assert connection.recv(1) == b""
        # The answers to a batch go by another connection than the batch, and their chains prove them.
        pair.send(2, 3, box=pair.far, queue="answers")
        roads = Roads()
        sent = [transmit(pair.near.access, roads, at_once=True)[0] for _ in range(2)]
        roads.close()
        assert [one.error for one in sent] == [None, None]
        assert sum(one.received for one in sent) == 2
        assert carried(pair.far) == [("c1", 1, False)]
        assert links.status(pair.far)[0].unacknowledged == 0
    with paired_over_https(databases, tmp_path) as pair, asked_over_tls(pair.port, pair.near_files) as connection:
        for _ in range(2):
            connection.sendall(request("/link/fetch", _fetch_of(pair)))
            assert b"connection" not in received_with_head(connection)[1]


def test_while_the_box_is_away_a_peer_is_told_when_to_ask_again(databases, tmp_path):
    with paired_over_https(databases, tmp_path) as pair:
        transmit_of_box(pair.near)
        wire = Wire(pair.far.dsn, random.Random(1), every=float("inf"))
        known = conninfo_to_dict(pair.far.dsn)
        files = pair.far_files
        try:
            there = wire.dsn(known["user"], known["dbname"])
            with open_to_look(
                there, schema=pair.far.schema, statement_s=2.0
            ) as box:  # which waits no longer for a connection
                server = LinkServer(
                    box, "127.0.0.1:0", certificate=files.certificate, key=files.key, authority=files.authority
                )
                server.start()
                try:
                    pair.near.define(pair.link(url=server.address, queues=["answers"]))
                    pair.send(1)
                    assert transmit_of_box(pair.near, at_once=True)[0].acknowledged == 1
                    wire.lead_to("host=/nowhere")
                    wire.cut()
                    with asked_over_tls(int(server.address.rpartition(":")[2]), pair.near_files) as connection:
                        connection.sendall(request("/link/fetch", _fetch_of(pair)))
                        status, head, body = received_with_head(connection)
                        assert (status, head[b"retry-after"], body) == (503, b"1", b"the box is away\n")
                    wire.lead_to(pair.far.dsn)
                    pair.send(2)
                    assert transmit_of_box(pair.near, at_once=True)[0].acknowledged == 1
                finally:
                    server.close()
        finally:
            wire.close()
        assert carried(pair.far) == [("c1", 1, False), ("c1", 2, False)]


@pytest.mark.soak
def test_frames_that_arent_right_change_nothing_over_https(pair: HttpsPair):
    transmit_of_box(pair.near)
    pair.send(1, 2, 3)
    pair.send(4, customer="c2")
    asked = _asked(pair)
    chance, refused = random.Random(soak.seed()), 0
    rounds = soak.sized(10_000, 200, 50)
    with asked_over_tls(pair.port, pair.near_files) as connection:
        for _ in range(rounds):
            path = chance.choice(("/link/push", "/link/push", "/link/fetch", "/link/trace"))
            connection.sendall(request(path, mutated(asked, chance)))
            status, body = received(connection)
            assert status == 200
            refused += isinstance(link_frames.read(body), FrameRefusal)
    assert refused > rounds // 2
    assert {one for (one,) in roles.rows(pair.far, "SELECT body FROM box.spool")} <= {b"1", b"2", b"3", b"4"}
    assert roles.rows(pair.far, "SELECT count(*) FROM box.aside") == [(0,)]


@pytest.mark.proves("frames that a killed HTTPS listener took are taken once by the next one")
def test_what_a_listener_took_before_it_was_killed_is_taken_once(pair: HttpsPair):
    transmit_of_box(pair.near)
    words = [sys.executable, "-m", "seriatim", "serve", "--dsn", pair.far.dsn, "--schema", pair.far.schema]
    files = pair.far_files
    words += [
        "--listen",
        "127.0.0.1:0",
        "--certificate",
        files.certificate,
        "--key",
        files.key,
        "--authority",
        files.authority,
    ]
    serving = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert serving.stderr is not None
        line = next(one for one in serving.stderr if "other boxes find this one at" in one)
        pair.send(1, 2)
        with asked_over_tls(int(line.rpartition(":")[2]), pair.near_files) as connection:
            connection.sendall(request("/link/push", _asked(pair)))
            connection.read(1)  # the answer begins, so it is committed; the rest is lost
            os.kill(serving.pid, signal.SIGKILL)
    finally:
        serving.kill()
        serving.communicate()
    (stream,) = [one for one in links.transmission(pair.near) if one.direction == "out"]
    assert (stream.sent, stream.acknowledged) == (2, 0)
    assert transmit_of_box(pair.near, at_once=True)[0].acknowledged == 2
    assert carried(pair.far) == [("c1", 1, False), ("c1", 2, False)]
    assert links.status(pair.near)[0].restored == links.status(pair.far)[0].restored == 0


def test_the_public_key_of_a_certificate_is_openssls(tmp_path):
    authority = Authority(tmp_path)
    openssl(*("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", tmp_path / "rsa.key"))
    for files in (authority.issued("ec"), authority.issued("rsa", key=str(tmp_path / "rsa.key"))):
        told = tmp_path / "public.pem"
        told.write_bytes(openssl("x509", "-in", files.certificate, "-noout", "-pubkey"))
        der = openssl("pkey", "-pubin", "-in", told, "-outform", "DER")
        assert public_key_in(files.certificate) == hashlib.sha256(der).digest()
