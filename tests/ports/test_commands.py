"""The commands for ports: receive, serve, ports, port forget, check; and doctor and health."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager

import pytest

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations.doctor import State
from seriatim.operations.doctor.work_checks import CHECKS, Work
from seriatim.operations.ports import forget_ports, ports
from seriatim.runtime.ports.mllp import MllpSource
from seriatim.runtime.processes.receiving import Receiving
from tests.command import command as words_of
from tests.command import environment
from tests.free_port import free_port
from tests.ports.running import running, taken, until
from tests.ports.sender import Sender, adt


@pytest.fixture
def hospital(box):
    box.define(
        sq.MessageType("ADT^A01", properties={"patient": "string"}),
        sq.Queue("visits", policy=sq.Fifo(), group="patient"),
        sq.Subscription("visits", where="type = 'ADT^A01'", to="visits"),
    )
    yield box
    Sender.close_all()


@contextmanager
def started(box, *words):
    process = subprocess.Popen(
        words_of(*words, "--dsn", box.dsn, "--schema", box.schema), env=environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=180)
    assert process.returncode == 0, told


@pytest.mark.parametrize("command", ["receive", "serve"])
def test_a_port_runs_by_its_text(hospital, command):
    address = f"127.0.0.1:{free_port()}"
    text = f"mllp: {{listen: '{address}', name: lab, properties: {{patient: PID-3.1}}}}"
    with started(hospital, command, "--port", text):
        until(lambda: ports(hospital))
        assert until(lambda: connected(address)).says(adt("m1", "p7")).code == "AA"
    assert [message.group for message in taken(hospital, "visits")] == ["p7"]
    assert not ports(hospital)[0].is_held


def connected(address):
    try:
        return Sender(address)
    except ConnectionRefusedError:
        return None


def said(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code, capsys.readouterr()


def test_ports_are_listed_and_forgotten(hospital, capsys):
    there = ["--dsn", hospital.dsn, "--schema", hospital.schema]
    source = MllpSource("127.0.0.1:0", name="lab", properties={"patient": "PID-3.1"})
    with running(sq.ReceivePort(hospital, source)):
        Sender(until(lambda: source.address)).says(adt("m1"))
        with pytest.raises(sq.ActionRefused, match="a process reads it"):
            forget_ports(hospital, "lab", actor="anna", reason="gone")
        assert CHECKS["receive ports"](Work(hospital)).state is State.OK
    found = CHECKS["receive ports"](Work(hospital))
    assert (found.state, "nobody reads it" in found.found) == (State.WARNING, True)
    code, out = said(capsys, "ports", "--json", *there)
    assert code == 0
    assert [(one["port"], one["taken"], one["is_held"]) for one in json.loads(out.out)] == [("lab", 1, False)]
    code, out = said(capsys, "port", "forget", "lab", "--actor", "anna", "--reason", "gone", *there)
    assert (code, "forgot lab" in out.out) == (0, True)
    assert ports(hospital) == []
    with pytest.raises(sq.NotFound, match="no port"):
        forget_ports(hospital, "lab", actor="anna", reason="gone")


@pytest.mark.parametrize(
    ("text", "kept", "once"),
    [
        ("mllp: {listen: '127.0.0.1:2575'}", True, True),
        ("rabbitmq: {url: 'amqp://guest:${SECRET}@localhost/', queue: orders}", False, False),
        ("kafka: {servers: 'localhost:9092', topic: orders}", True, True),
    ],
)
def test_check_says_the_order_and_which_queues_inherit_the_disorder(hospital, capsys, monkeypatch, text, kept, once):
    monkeypatch.setenv("SECRET", "hidden-word")
    code, out = said(capsys, "check", "--port", text, "--json", "--dsn", hospital.dsn, "--schema", hospital.schema)
    found = json.loads(out.out)
    assert code == 0
    assert (found["keeps_order_over_a_crash"], found["once"]) == (kept, once)
    assert ["visits" in line for line in found["warnings"]] == ([] if kept else [True])
    assert "hidden-word" not in out.out + out.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("amqp: {}", "needs one of mllp, rabbitmq and kafka"),
        ("mllp: {listen: nowhere}", "cannot listen"),
        ("mllp: {listen: '127.0.0.1:0', properties: {patient: PID}}", "no path of HL7"),
        ("rabbitmq: {url: 'http://x', queue: q}", "amqp://"),
        ("kafka: {servers: 'x:1', topic: t, options: {group.id: mine}}", "sets group.id itself"),
        ("kafka: {servers: 'x:1', topic: t, start: middle}", "earliest"),
    ],
)
def test_a_text_that_is_wrong_is_told_in_a_line(hospital, text, told):
    with pytest.raises(sq.UsageError, match=told):
        sq.ReceivePort(hospital, text)


def test_a_port_that_cannot_go_on_ends_the_others_and_says_why(hospital):
    with hospital.session() as tx:
        tx.connection.execute(f"ALTER TABLE {hospital.schema}.ports RENAME TO elsewhere")
    receiving = Receiving([sq.ReceivePort(hospital, MllpSource("127.0.0.1:0"))])
    with pytest.raises(Exception, match="ports"):
        receiving.run()
    assert "has ended" in receiving.late()[0]
