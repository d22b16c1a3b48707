"""HL7 out of the box: an acknowledgement counts only for the message that it names."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest

import seriatim as sq
from seriatim.endpoints.mllp import MllpPort
from seriatim.runtime.ports.mllp import MllpSource
from tests.certificates import Authority
from tests.databases import box_with
from tests.endpoints.handed import hand, message
from tests.ports.running import running, taken, until
from tests.ports.sender import adt


@contextmanager
def receiver(*answers):
    """A receiver that answers each message by the next of some functions; it keeps what it has got, with its connection."""
    got: list[tuple[int, bytes]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def serve():
            number, left = 0, list(answers)
            while not over.is_set():
                with suppress(OSError):
                    connection, _ = listener.accept()
                    number += 1
                    with connection:
                        talk(connection, number, left)

        def talk(connection, number, left):
            rest = b""
            while data := connection.recv(65536):
                rest += data
                while b"\x1c\r" in rest:
                    frame, _, rest = rest.partition(b"\x1c\r")
                    got.append((number, frame[1:]))
                    said = left.pop(0)(frame[1:]) if left else ack("AA")(frame[1:])
                    if said is None:
                        return
                    connection.sendall(said)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", got
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(120)


def ack(code, of=None, text="", charset=""):
    def answer(body):
        control_id = body.split(b"|")[9].decode("latin-1") if of is None else of
        said = f"MSH|^~\\&|HIS|MAIN|LAB|WARD|1||ACK|x|P|2.5||||||{charset}\rMSA|{code}|{control_id}|{text}\r"
        return b"\x0b" + said.encode("latin-1") + b"\x1c\r"

    return answer


def sent(port, *bodies):
    try:
        return [hand(port, message(n + 1, body)) for n, body in enumerate(bodies)]
    finally:
        port.close()


def test_each_is_acknowledged_before_the_next_on_one_connection():
    with receiver() as (address, got):
        assert sent(MllpPort(address), adt("m1"), adt("m2"), adt("m3")) == [None, None, None]
    assert got == [(1, adt("m1")), (1, adt("m2")), (1, adt("m3"))]


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (ack("AE", text="no such patient"), sq.Business, "AE: no such patient"),
        (ack("AR", text="busy"), sq.Transient, "AR: busy"),
        (ack("AA", of="other"), sq.Transient, "acknowledges 'other'"),
        (lambda _: b"\x0bno HL7\x1c\r", sq.Transient, "acknowledges ''"),
        (lambda _: b"no frame", sq.Transient, "no acknowledgement"),
        (lambda _: None, sq.Transient, "closed"),
    ],
)
def test_other_answers(answer, kind, told):
    with receiver(answer) as (address, _):
        (error,) = sent(MllpPort(address), adt("m1"))
    assert type(error) is kind
    assert told in str(error)


@pytest.mark.parametrize("charset", ["ISO IR6", "8859-1", "UTF8", "WINDOWS-1252", "8859/12"])
def test_a_character_set_that_is_not_known_keeps_no_message_from_being_done(charset):
    bodies = (adt("m1", charset=charset), adt("m\xfc", charset=charset), adt("m3"), adt("m4"))
    answers = (ack("AA"), ack("AA", charset=charset), ack("AA", charset=charset))
    with receiver(*answers, ack("AE", text="M\xfcller?", charset=charset)) as (address, got):
        *done, refused = sent(MllpPort(address), *bodies)
    assert done == [None, None, None]
    assert (type(refused), "AE: Müller?" in str(refused)) == (sq.Business, True)
    assert got == [(1, body) for body in bodies]


def test_a_late_acknowledgement_is_not_taken_for_that_of_the_next_message():
    late = threading.Event()

    def slow(body):
        late.wait(120)
        return ack("AA")(body)

    with receiver(slow) as (address, got):
        port = MllpPort(address, timeout=2.0)
        error = hand(port, message(1, adt("m1")))
        assert isinstance(error, sq.Transient)
        port._timeout = 120.0
        late.set()
        assert sent(port, adt("m1"), adt("m2")) == [None, None]
    assert [number for number, _ in got] == [1, 2, 2]


@pytest.mark.parametrize("body", [b"", b"{}", b"MSH|^~\\&|no id", adt("m1") + b"\x1c\r"])
def test_what_is_no_hl7_is_not_sent(body):
    (error,) = sent(MllpPort("127.0.0.1:1"), body)
    assert isinstance(error, sq.Business)


def test_nobody_there_is_transient():
    (error,) = sent(MllpPort("127.0.0.1:1"), adt("m1"))
    assert isinstance(error, sq.Transient)


@pytest.mark.parametrize("address", ["", "host", "host:0", "host:99999", None])
def test_an_address_that_is_none(address):
    with pytest.raises(sq.UsageError, match="address"):
        MllpPort(address)


def _prepare(box):
    box.define(
        sq.Queue("visits", policy=sq.Fifo(), group="source_partition"),
        sq.Queue("back", policy=sq.Fifo(), group="source_partition"),
        sq.Subscription("visits", where="source_port IS NULL", to="visits"),
        sq.Subscription("back", where="source_port = 'lab'", to="back"),
    )


hospital = box_with(_prepare)


def test_out_of_one_box_and_into_another_in_order(hospital):
    with hospital.session() as tx:
        tx.publish([sq.Message(type="ADT", body=adt(f"m{n}"), context={"source_partition": "p1"}) for n in range(50)])
    source = MllpSource("127.0.0.1:0", name="lab")
    with running(sq.ReceivePort(hospital, source)):
        port = MllpPort(until(lambda: source.address))
        sq.Worker(hospital, "visits", port, workers=1).run(until_idle=True)
        port.close()
    assert [one.context["source_id"] for one in taken(hospital, "back")] == [f"m{n}" for n in range(50)]


def test_over_tls_into_another_box(hospital, tmp_path):
    authority = Authority(tmp_path)
    files, own = authority.issued("lab"), authority.issued("ward")
    with hospital.session() as tx:
        tx.publish([sq.Message(type="ADT", body=adt(f"m{n}"), context={"source_partition": "p1"}) for n in range(3)])
    source = MllpSource("127.0.0.1:0", name="lab", **files.as_link())
    with running(sq.ReceivePort(hospital, source)):
        port = MllpPort(until(lambda: source.address), **own.as_link())
        sq.Worker(hospital, "visits", port, workers=1).run(until_idle=True)
        for wrong in ({"tls": True}, {"authority": Authority(tmp_path, "stranger").certificate}):
            (error,) = sent(MllpPort(source.address, timeout=120, **wrong), adt("m9"))
            assert isinstance(error, sq.Transient)
            assert "certificate" in str(error)
        port.close()
    assert [one.context["source_id"] for one in taken(hospital, "back")] == ["m0", "m1", "m2"]


def test_a_receiver_that_speaks_no_tls():
    with receiver() as (address, _):
        (error,) = sent(MllpPort(address, timeout=2, tls=True), adt("m1"))
    assert isinstance(error, sq.Transient)


def test_files_of_tls_that_cannot_be_used(tmp_path):
    with pytest.raises(sq.UsageError, match="a certificate and its key"):
        MllpPort("127.0.0.1:1", certificate="ward.pem")
    with pytest.raises(sq.EnvironmentProblem, match=r"none\.pem can't be read"):
        MllpPort("127.0.0.1:1", authority=str(tmp_path / "none.pem"))
