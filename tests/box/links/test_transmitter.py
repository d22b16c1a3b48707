"""The transmitter: it sends what is published while it waits, and several of them share the streams."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.waiting import READY_R, WAIT_R

import seriatim as sq
from seriatim.box.links.carrier import Carrier
from seriatim.operations import links
from seriatim.operations.grants import grant, revoke
from seriatim.operations.links import transmit
from tests.box import roles
from tests.box.cutting import Cutting
from tests.box.links.pairs import Pair, carried, paired
from tests.dropping import LOSSES, asked_at_once  # noqa: F401 -- a fixture
from tests.faults.wire import Wire

_DEADLINE_S = 120.0


@pytest.fixture
def pair(databases):
    with paired(databases) as both:
        yield both


class _Transmitting:
    """Transmitters of a box, as long as the block lasts."""

    def __init__(self, box, how_many=1):
        self._transmitters = [sq.Transmitter(box) for _ in range(how_many)]
        self._threads = [threading.Thread(target=self._run, args=[one]) for one in self._transmitters]
        self._ended = threading.Event()
        self.errors = []

    def _run(self, transmitter):
        try:
            transmitter.transmit_until(self._ended.is_set, refused=None)
        except sq.SeriatimError as error:
            self.errors.append(error)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *told):
        self._ended.set()
        for thread in self._threads:
            thread.join(_DEADLINE_S)
            assert not thread.is_alive()


def _until_all_is_acknowledged(*boxes):
    deadline = time.monotonic() + _DEADLINE_S
    while any(one.waiting or one.unacknowledged for box in boxes for one in links.status(box)):
        assert time.monotonic() < deadline


def test_what_is_published_while_it_waits_is_sent(pair: Pair):
    with _Transmitting(pair.near):
        pair.send(1)
        _until_all_is_acknowledged(pair.near)
        pair.send(2)
        pair.send(3, box=pair.far, queue="answers")
        _until_all_is_acknowledged(pair.near, pair.far)
    assert carried(pair.far) == [("c1", 1, False), ("c1", 2, False)]
    assert carried(pair.near, "answers") == [("c1", 3, False)]


def test_two_transmitters_share_the_streams(pair: Pair):
    near = pair.near.more(4)
    with near, _Transmitting(near, 2):
        for nth in range(100):
            pair.send(nth, customer=f"c{nth % 7}")
        _until_all_is_acknowledged(pair.near)
    arrived = carried(pair.far)
    assert sorted(nth for _, nth, _ in arrived) == list(range(100))
    for group in {one for one, _, _ in arrived}:
        mine = [nth for one, nth, _ in arrived if one == group]
        assert mine == sorted(mine)
    assert links.status(pair.near)[0].restored == 0


def test_a_role_that_isnt_the_owner_may_not_transmit(pair: Pair):
    role = f"{pair.role}_app"
    roles.make(pair.near, role)
    grant(pair.near, role, publish=["orders"])
    with roles.as_role(pair.near, role) as box, pytest.raises(sq.EnvironmentProblem, match="only the owner"):
        transmit(box)
    revoke(pair.near, role)


_STEPS = """
import os, signal, sys
import seriatim as sq
from seriatim.box.links.carrier import Carrier
from seriatim.pipeline.declared.link import Link

near, schema, far, until = sys.argv[1:]
box, carrier = sq.MessageBox.open(near, schema=schema), Carrier(Link("far", dsn=far, schema=schema))
steps = iter(("asked", "pushed", "acknowledged", "fetched", "taken", "told"))

def done():
    if next(steps) == until:
        os.kill(os.getpid(), signal.SIGKILL)

def call(name, one=False, **given):
    with box.access.transaction() as transaction:
        return (transaction.one if one else transaction.value)(name, of_link=link, **given)

with box.access.transaction() as transaction:
    link = transaction.one("link_addresses", name="far").link_id
batch = call("link_next", one=True, largest=0, at_once=True)
done()
answers = carrier.push(batch.frame)
done()
call("link_answered", frame=answers, of_token=batch.of_token)
done()
come = carrier.fetch(call("link_request", largest=0))
done()
taken = call("link_take", one=True, frame=come)
done()
carrier.push(taken.answers)
done()
"""


@pytest.mark.proves("another transmitter sends on, whatever step of a frame the first was killed at")
@pytest.mark.dear
@pytest.mark.parametrize("until", ["asked", "pushed", "acknowledged", "fetched", "taken", "told"])
def test_a_transmitter_that_is_killed_at_any_moment_is_replaced(pair: Pair, until):
    transmit(pair.near)
    pair.send(1, 2)
    pair.send(3, 4, box=pair.far, queue="answers")
    words = [sys.executable, "-c", _STEPS, pair.near.dsn, pair.near.schema, roles.dsn_of(pair.far, pair.role), until]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    # What the killed one has fetched is fetched again when it is due; nobody knows that it won't be acknowledged.
    roles.rows(pair.far, "UPDATE box.link_streams_out SET next_try_at = '-infinity'")
    transmit(pair.near, at_once=True)
    assert carried(pair.far) == [("c1", 1, False), ("c1", 2, False)]
    assert carried(pair.near, "answers") == [("c1", 3, False), ("c1", 4, False)]
    for box in (pair.near, pair.far):
        (link,) = links.status(box)
        assert (link.unacknowledged, link.waiting, link.restored) == (0, 0, 0)


@pytest.mark.usefixtures("asked_at_once")
@pytest.mark.parametrize("loss", LOSSES)
def test_an_idle_connection_that_was_dropped_costs_no_round(pair: Pair, loss: str):
    with Cutting(pair.link().dsn) as road, Carrier(replace(pair.link(), dsn=road.dsn)) as carrier:
        for _ in range(3):
            assert carrier.push(b"") != b""
            LOSSES[loss](road)


def test_a_way_that_swallows_everything_is_given_up(pair: Pair):
    wire = Wire(pair.far.dsn, random.Random(1), every=float("inf"))
    link = replace(pair.link(), dsn=wire.dsn(pair.role, conninfo_to_dict(pair.far.dsn)["dbname"]))
    try:
        with Carrier(link, answer_s=2.0) as carrier:
            assert carrier.push(b"") != b""
            wire.is_hole = True
            with pytest.raises(sq.Unavailable, match="can't be asked"):
                carrier.push(b"")
    finally:
        wire.close()


def test_an_answer_that_stops_in_its_middle_is_given_up(pair: Pair):
    """It doesn't wait for as long as the other side may take to begin."""
    with Carrier(pair.link()) as carrier:
        here, there = socket.socketpair()
        carrier._connection.silent_s = 0.2

        def answer():
            there.sendall(b"x")
            while True:
                assert (yield WAIT_R) == READY_R
                here.recv(1)

        carrier._connection.fileno = here.fileno
        with here, there, pytest.raises(psycopg.OperationalError, match="the answer doesn't come"):
            carrier._connection.wait(answer())


def test_the_server_of_the_other_box_finds_out_that_this_side_is_gone(pair: Pair):
    with Carrier(pair.link()) as carrier, carrier._connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_settings WHERE name LIKE 'tcp%%' AND source = 'client' ORDER BY 1")
        assert [name for (name,) in cursor] == [
            "tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_user_timeout",
        ]  # fmt: skip
