"""HL7 into the box: acknowledged when it is committed, once in the box, and nobody can block the port."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from contextlib import contextmanager, suppress

import psycopg
import pytest

import seriatim as sq
from seriatim.operations.messages import message as stored
from seriatim.operations.messages import messages
from seriatim.operations.ports import ports
from seriatim.runtime.ports import mllp
from seriatim.runtime.ports.mllp import MllpSource
from seriatim.runtime.ports.source import Outcome
from tests.certificates import Authority
from tests.databases import box_with
from tests.ports.running import running, taken, until
from tests.ports.sender import Sender, adt


def prepare(box):
    box.define(
        sq.MessageType("ADT^A01", properties={"patient": "string"}),
        sq.Queue("visits", policy=sq.Fifo(), group="patient"),
        sq.Queue("numbered", policy=sq.Standard(), group="source_partition", sequence="source_position"),
        sq.Subscription("visits", where="type = 'ADT^A01'", to="visits"),
        sq.Subscription("numbered", where="source_position IS NOT NULL", to="numbered"),
    )


hospital = box_with(prepare)


@pytest.fixture(autouse=True)
def _closed():
    yield
    Sender.close_all()


@contextmanager
def listening(box, **options):
    source = MllpSource("127.0.0.1:0", name="lab", properties={"patient": "PID-3.1", "family": "PID-5.1"}, **options)
    with running(sq.ReceivePort(box, source)):
        yield until(lambda: source.address)


class Clock:
    """By which a port sees what takes too long. It stands still until it is moved."""

    def __init__(self):
        self._now = 1_000.0

    def monotonic(self):
        return self._now

    def move(self, by_s):
        self._now += by_s


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(mllp, "time", found)
    return found


@pytest.fixture
def address(hospital, clock):
    hospital.define(sq.MessageType("ADT^A01", properties={"patient": "string", "family": "string"}))
    with listening(hospital, silent=1.0) as found:
        yield found


def test_a_message_is_in_the_box_when_it_is_acknowledged(hospital, address):
    sender = Sender(address)
    answer = sender.says(adt("m1", "p7"))
    assert (answer.code, answer.control_id) == ("AA", "m1")
    (message,) = taken(hospital, "visits")
    assert message.body == adt("m1", "p7")
    assert message.type == "ADT^A01"
    assert message.content_type == "x-application/hl7-v2+er7; charset=utf-8"
    assert (message.ticket.location, message.group) == ("lab", "p7")
    assert {name: message.context[name] for name in ("source_port", "source_partition", "source_id", "family")} == {
        "source_port": "lab", "source_partition": "LAB|WARD", "source_id": "m1", "family": "Müller",
    }  # fmt: skip


def test_a_repeat_is_left_out_and_another_body_under_the_id_is_marked(hospital, address):
    sender = Sender(address)
    for message in (adt("m1"), adt("m1", time="20261130"), adt("m1", more="^other")):
        assert sender.says(message).code == "AA"
    first, other = taken(hospital, "visits")
    assert first.body == adt("m1")
    assert "id_reused" not in first.context
    assert other.body == adt("m1", more="^other")
    assert other.context["id_reused"] is True
    (port,) = ports(hospital)
    assert (port.port, port.taken, port.left_out, port.id_reused, port.is_held) == ("lab", 2, 1, 1, True)


def test_the_charset_is_the_messages(hospital, address):
    Sender(address).says(adt("m1", charset="8859/1"))
    (message,) = taken(hospital, "visits")
    assert message.context["family"] == "Müller"
    assert b"M\xfcller" in message.body


def test_sequence_numbers_are_put_in_order_and_the_answer_asks_for_the_expected_one(hospital, address):
    sender = Sender(address)
    assert sender.says(adt("s0", number=0)).expected == "-1"
    asked = [sender.says(adt(f"s{number}", number=number)).expected for number in (1, 3, 4, 2)]
    assert asked == ["2", "2", "2", "5"]
    assert sender.says(adt("s0", number=0)).expected == "5"
    assert [message.sequence for message in taken(hospital, "numbered")] == [1, 2, 3, 4]
    assert sender.says(adt("again", number=-1)).expected == "-1"
    assert sender.says(adt("s0", number=0)).expected == "-1"


def test_the_expected_number_outlives_the_port(hospital):
    hospital.define(sq.MessageType("ADT^A01", properties={"patient": "string", "family": "string"}))
    with listening(hospital) as address:
        Sender(address).says(adt("s1", number=7))
    with listening(hospital) as address:
        assert Sender(address).says(adt("s0", number=0)).expected == "8"


def test_the_expected_number_is_committed_with_messages_that_have_none(hospital):
    source = MllpSource("127.0.0.1:0", name="lab")
    port = sq.ReceivePort(hospital, source)
    port._claim()
    both = b"".join(b"\x0b" + one + b"\x1c\r" for one in (adt("s1", number=7), adt("m1")))
    Sender(source.address).socket.sendall(both)
    pending = []
    until(lambda: pending.extend(source.take(10, 0.1)) or len(pending) == 2)
    port._commit(pending)
    port._end()
    with listening(hospital) as address:
        assert Sender(address).says(adt("s0", number=0)).expected == "8"


def test_many_senders_share_commits_and_each_is_in_order(hospital, address):
    def send(name):
        sender = Sender(address)
        for number in range(20):
            assert sender.says(adt(f"m{number}", name, sender=name)).code == "AA"

    threads = [threading.Thread(target=send, args=[f"p{one}"]) for one in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = taken(hospital, "visits")
    assert len(got) == 160
    for one in range(8):
        assert [message.context["source_id"] for message in got if message.group == f"p{one}"] == [
            f"m{n}" for n in range(20)
        ]


def test_a_body_of_ten_megabytes(hospital, address):
    message = adt("big", more="^" + "x" * 10_000_000)
    assert Sender(address).says(message).code == "AA"
    assert taken(hospital, "visits")[0].body == message


@pytest.mark.dear
def test_a_body_of_a_hundred_megabytes_is_taken_by_a_port_that_may(hospital, clock):
    hospital.define(sq.MessageType("ADT^A01", properties={"patient": "string", "family": "string"}))
    message = adt("big", more="^" + "x" * 100_000_000)
    with listening(hospital, largest=2 * 100_000_000) as address:
        assert Sender(address).says(message).code == "AA"
    with listening(hospital) as address, suppress(OSError):  # its connection is closed while it sends
        answer = Sender(address).says(message)
        assert answer is None or answer.code == "AR"
    assert [one.body for one in taken(hospital, "visits")] == [message]


def test_what_is_no_hl7_is_kept_with_the_reason_and_answered(hospital, address):
    sender = Sender(address)
    answer = sender.says(b"FHS|no message")
    assert answer.code == "AE"
    assert sender.says(adt("m1")).code == "AA"
    (kept,) = [one for one in messages(hospital) if one.type == "seriatim.refused"]
    assert "no MSH segment" in stored(hospital, kept.message_id)[0].context["refused"]


def test_what_the_type_refuses_is_kept_and_acknowledged(hospital, address):
    hospital.define(sq.MessageType("ADT^A08", validation="well_formed_json"))
    assert Sender(address).says(adt("m1", event="A08")).code == "AA"
    (kept,) = messages(hospital)
    assert kept.status == "unrouted"
    assert "JSON" in kept.reason


@pytest.mark.parametrize("begun", [b"\x0bMSH|never ends", b"no frame at all", b"\x0bMSH|one\x0bMSH|another"])
def test_a_sender_that_never_ends_a_frame_blocks_nobody(hospital, address, clock, begun):
    bad = Sender(address)
    bad.socket.sendall(begun)
    assert Sender(address).says(adt("m1")).code == "AA"
    until(lambda: clock.move(2.0) or select.select([bad.socket], [], [], 0.1)[0])
    assert bad.answer() is None


def test_a_frame_without_an_end_that_goes_on_is_refused_at_the_largest_size(hospital):
    with listening(hospital, largest=100_000) as address:
        sender = Sender(address)
        sender.socket.sendall(b"\x0b" + b"x" * 200_000)
        answer = sender.answer()
        assert answer is None or answer.code == "AR"  # the system may drop the answer with the connection
        assert Sender(address).says(adt("m1")).code == "AA"


def test_a_full_queue_keeps_senders_waiting_and_then_says_so(hospital, clock):
    hospital.define(
        sq.MessageType("ADT^A01", properties={"patient": "string", "family": "string"}),
        sq.Queue("visits", policy=sq.Fifo(), group="patient", max_messages=1),
    )
    with listening(hospital, patience=0.5) as address:
        sender = Sender(address)
        assert sender.says(adt("m1")).code == "AA"
        sender.send(adt("m2"))
        assert "has room for 0" in until(lambda: ports(hospital)[0].problem)
        clock.move(1.0)
        assert sender.answer().code == "AR"
        assert len(taken(hospital, "visits")) == 1
        assert sender.says(adt("m2")).code == "AA"
        assert len(taken(hospital, "visits")) == 1
        until(lambda: ports(hospital)[0].problem is None)


def test_of_messages_that_nobody_takes_no_body_is_kept_behind_their_answers(clock):
    source = MllpSource("127.0.0.1:0", patience=1.0)
    source.begin("", None)
    try:
        for number in range(3):
            sender = Sender(source.address)
            sender.send(adt("m1"))
            until(lambda number=number: source._received.qsize() == number + 1)
            clock.move(2.0)
            assert sender.answer().code == "AR"
        assert [[one.body for one in frames] for frames in source._received.queue] == [[b""]] * 3
        until(lambda: source._server.in_memory == 0)
        assert source.take(10, 0.01) == []
        assert source._received.empty()
    finally:
        source.close()


def test_of_messages_that_a_connection_leaves_no_body_is_kept(clock):
    source = MllpSource("127.0.0.1:0")
    source.begin("", None)
    try:
        sender = Sender(source.address)
        sender.send(adt("m1"))
        until(lambda: source._received.qsize() == 1)
        sender.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed at once
        sender.close()
        until(lambda: not source._server.connections)
        assert [one.body for frames in source._received.queue for one in frames] == [b""]
    finally:
        source.close()


def test_what_a_connection_leaves_is_counted_out_once(clock):
    source = MllpSource("127.0.0.1:0")
    source.begin("", None)
    try:
        sender = Sender(source.address)
        sender.send(adt("m1"))
        sender.socket.sendall(b"\x0bMSH|")  # it never ends
        (one,) = until(lambda: source.take(10, 0.01))
        until(lambda: source._server.in_memory > len(adt("m1")))
        sender.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed at once
        sender.close()
        until(lambda: not source._server.connections)
        source.acknowledge([Outcome(one)])
        other = Sender(source.address)
        other.send(adt("m2"))  # the listener's thread does one after the other
        until(lambda: source._server.in_memory > 0)
        assert source._server.in_memory == len(adt("m2"))
    finally:
        source.close()


def test_what_is_sent_again_does_not_gather_before_a_full_queue_and_counts_when_it_is_committed(hospital, clock):
    hospital.define(
        sq.MessageType("ADT^A01", properties={"patient": "string", "family": "string"}),
        sq.Queue("visits", policy=sq.Fifo(), group="patient", max_messages=1),
    )
    source = MllpSource("127.0.0.1:0", name="lab", properties={"patient": "PID-3.1"}, patience=1.0)
    port = sq.ReceivePort(hospital, source)

    def says(message):
        sender.send(message)
        until(lambda: port._round() or select.select([sender.socket], [], [], 0)[0])
        return sender.answer()

    def held():
        return port._pending + [one for full in port._full.values() for one in full.pending]

    try:
        port._round()
        sender = Sender(source.address)
        assert says(adt("m6", number=6)).expected == "7"
        for _ in range(3):
            sender.send(adt("m7", number=7))
            until(lambda: port._round() or held())
            clock.move(2.0)
            assert sender.answer().code == "AR"
            for partition, full in list(port._full.items()):
                port._try_again(partition, full)
            assert held() == []
        assert says(adt("s0", number=0)).expected == "7"
        assert len(taken(hospital, "visits")) == 1
        assert says(adt("m7", number=7)).expected == "8"
        assert [message.context["source_id"] for message in taken(hospital, "visits")] == ["m7"]
    finally:
        port._end()


def test_what_could_not_be_committed_is_left_to_a_sender_that_was_told_so(hospital, clock):
    source = MllpSource("127.0.0.1:0", name="lab", patience=1.0)
    port = sq.ReceivePort(hospital, source)
    try:
        port._round()
        sender = Sender(source.address)
        sender.send(adt("m1"))
        port._pending = until(lambda: source.take(10, 0.1))  # as when the commit has failed
        clock.move(2.0)
        assert sender.answer().code == "AR"
        port._round()
        assert (port._pending, ports(hospital)[0].taken) == ([], 0)
    finally:
        port._end()


def test_a_port_goes_on_when_postgresql_ends_its_connection(hospital, address):
    sender = Sender(address)
    with hospital.session() as tx:  # the port waits for this transaction, which has the sender's id
        tx.connection.execute(f"INSERT INTO {hospital.schema}.message_ids (message_id) VALUES ('mllp/LAB/WARD/m1')")
        sender.send(adt("m1"))
        until(lambda: ended_in_claim(hospital))
        tx.connection.rollback()
    assert sender.answer().code == "AA"


@contextmanager
def read_only(box):
    """A server that takes no writes for the block, as in a switchover."""
    with psycopg.connect(box.dsn, autocommit=True) as sql:
        sql.execute(
            f"""CREATE FUNCTION {box.schema}.away() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN RAISE ''read-only'' USING ERRCODE = ''read_only_sql_transaction''; END';
            CREATE TRIGGER away BEFORE UPDATE ON {box.schema}.ports EXECUTE FUNCTION {box.schema}.away()"""
        )
        yield
        sql.execute(f"DROP FUNCTION {box.schema}.away CASCADE")


def test_a_port_outlasts_a_server_that_takes_no_writes_for_a_while(hospital, clock):
    source = MllpSource("127.0.0.1:0", name="lab", properties={"patient": "PID-3.1"})
    with running(sq.ReceivePort(hospital, source)) as port:
        sender = Sender(until(lambda: source.address))
        with read_only(hospital):
            sender.send(adt("m1"))
            until(port.late)
        assert sender.answer().code == "AA"


def test_an_idle_port_forgets_a_problem_that_is_over(hospital):
    with running(sq.ReceivePort(hospital, MllpSource("127.0.0.1:0", name="lab"), lease="2s")) as port:
        until(lambda: ports(hospital))
        with read_only(hospital):
            until(port.late)
        over = ports(hospital)[0].seen_at
        until(lambda: ports(hospital)[0].seen_at > over)  # it was tried again
        for _ in range(2):
            before = port.looked
            until(lambda before=before: port.looked > before)
        assert port.late() == []
        until(lambda: ports(hospital)[0].problem is None)


def ended_in_claim(box):
    waits = "wait_event_type = 'Lock' AND query LIKE '%claim_sender_ids%' AND datname = current_database()"
    with box.session() as tx:
        return tx.connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {waits}").fetchall()


def test_enhanced_mode_is_answered_in_its_own_words(hospital, address):
    msh = "MSH|^~\\&|LAB|WARD|HIS|MAIN|1||ADT^A01|{}|P|2.5|||{}|AL"
    assert Sender(address).says(msh.format("c1", "AL").encode()).code == "CA"
    quiet = Sender(address)
    quiet.send(msh.format("c2", "NE").encode())
    assert quiet.says(adt("m1")).control_id == "m1"


def test_a_sender_that_does_not_wait_is_answered_in_its_order(hospital, address):
    sender = Sender(address)
    sender.socket.sendall(b"".join(b"\x0b" + adt(f"m{n}") + b"\x1c\r" for n in range(300)))
    assert [sender.answer().control_id for _ in range(300)] == [f"m{n}" for n in range(300)]
    assert [message.context["source_id"] for message in taken(hospital, "visits")] == [f"m{n}" for n in range(300)]


def test_a_sender_whose_packets_never_end_with_a_message_is_not_slow(hospital, clock):
    hospital.define(sq.MessageType("ADT^A01", properties={"patient": "string", "family": "string"}))
    with listening(hospital, silent=2.0) as address:
        sender = Sender(address)
        sender.socket.sendall(b"\x0bMSH")
        for number in range(20):
            sender.socket.sendall(adt(f"m{number}")[3:] + b"\x1c\r\x0bMSH")
            assert sender.answer().control_id == f"m{number}"
            clock.move(0.5)


def test_a_sender_that_ends_its_half_is_answered(hospital, address):
    sender = Sender(address)
    sender.send(adt("m1"))
    sender.send(adt("m2"))
    sender.socket.shutdown(socket.SHUT_WR)
    assert [sender.answer().code for _ in range(2)] == ["AA", "AA"]
    assert sender.answer() is None


def test_nothing_passes_what_a_sender_that_does_not_wait_has_to_send_again(hospital):
    hospital.define(
        sq.MessageType("ADT^A01", properties={"patient": "string", "family": "string"}),
        sq.Queue("visits", policy=sq.Fifo(), group="patient", max_messages=1),
    )
    with listening(hospital, patience=0.5) as address:
        sender, left, got = Sender(address), [f"m{n}" for n in range(6)], []
        for one in left:
            sender.send(adt(one))
        while left:
            answer = sender.answer()
            if answer is not None and answer.code == "AA":
                assert answer.control_id == left.pop(0)
            elif answer is None:  # all others are sent again, over another connection
                sender = Sender(address)
                for one in left:
                    sender.send(adt(one))
            got += taken(hospital, "visits")
        got += taken(hospital, "visits")
    assert [message.context["source_id"] for message in got] == [f"m{n}" for n in range(6)]


def test_one_process_listens_and_another_takes_over(hospital):
    first, second = (MllpSource("127.0.0.1:0", name="lab") for _ in range(2))
    with running(sq.ReceivePort(hospital, second, lease="60s")):
        until(lambda: second.address)
        with running(sq.ReceivePort(hospital, first, lease="60s")):
            until(lambda: ports(hospital))
            assert first.address is None
            hospital_row = ports(hospital)[0]
            assert hospital_row.is_held
    with running(sq.ReceivePort(hospital, first, lease="2s")):
        until(lambda: first.address)


def test_tls_by_files_which_are_read_again(hospital, tmp_path):
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    files = authority.issued("lab")
    trusted = ssl.create_default_context(cafile=files.authority)
    with listening(hospital, certificate=files.certificate, key=files.key) as address:
        sender = Sender(address, trusted)
        assert sender.says(adt("m1")).code == "AA"
        plain = Sender(address)
        plain.send(adt("m2"))
        assert plain.answer() is None
        with pytest.raises(ssl.SSLCertVerificationError):
            Sender(address, ssl.create_default_context(cafile=stranger.certificate))
        stranger.issued("lab")  # in the place of the former one
        assert Sender(address, ssl.create_default_context(cafile=stranger.certificate)).says(adt("m3")).code == "AA"
        assert sender.says(adt("m4")).code == "AA"
    assert [message.context["source_id"] for message in taken(hospital, "visits")] == ["m1", "m3", "m4"]


def test_senders_have_to_show_a_certificate(hospital, tmp_path):
    authority = Authority(tmp_path)
    files, ward = authority.issued("lab"), authority.issued("ward")
    other = Authority(tmp_path, "stranger").issued("other")
    with listening(hospital, **files.as_link()) as address:
        for own, comes in ((ward, True), (other, False), (None, False)):
            trusted = ssl.create_default_context(cafile=files.authority)
            if own is not None:
                trusted.load_cert_chain(own.certificate, own.key)
            with suppress(OSError):  # by TLS 1.3 a sender learns only later that its certificate was refused
                answer = Sender(address, trusted).says(adt(f"m{comes}"))
                assert (answer is not None) is comes
    assert len(taken(hospital, "visits")) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"certificate": "lab.pem"}, "a certificate and its key"),
        ({"key": "lab.key"}, "a certificate and its key"),
        ({"authority": "ca.pem"}, "needs TLS"),
    ],
)
def test_files_that_do_not_go_together(given, told):
    with pytest.raises(sq.UsageError, match=told):
        MllpSource("127.0.0.1:0", **given)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(sq.EnvironmentProblem, match=r"none\.pem can't be read: No such file"):
        MllpSource("127.0.0.1:0", certificate=str(tmp_path / "none.pem"), key="none.key")
