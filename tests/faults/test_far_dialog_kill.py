"""Purchase orders between two boxes on two servers, over HTTPS: applications, both ends of the link, both servers and the wire fail.

Each order is in order, each of its messages once, and both sides come to the end that was planned for it.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.dialogs.clock import forget_closed
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import invariants, links
from tests.certificates import Authority
from tests.command import command
from tests.faults import order_talkers
from tests.faults.crew import Crew
from tests.faults.order_talkers import ANSWERS, CODES, CONTRACT, KINDS
from tests.faults.test_link_kill import End
from tests.faults.wire import SEALED, Wire
from tests.free_port import free_port
from tests.soak import full, seed, sized

ORDERS = sized(1_000, 60)
#: How often each of the servers, each kind of processes and the wire fail.
ENDS = sized(8, 1)
LIFETIME_S = sized(60.0, 15.0)
DEADLINE_S = 1_200.0
FAULTY = 12


class Firms:
    """Two boxes on two servers, a link over HTTPS with a bad wire between, and the applications of both firms."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self._stack = ExitStack()
        self.north, self.south = (self._end(folder, name) for name in ("north", "south"))
        port = free_port()
        self.wire = Wire(port, chance, every=sized(FAULTY, 5), kinds=SEALED)
        self._stack.callback(self.wire.close)
        authority = Authority(folder)
        mine, its = authority.issued("near"), authority.issued("far")
        with sq.MessageBox.open(self.north.dsn) as here, sq.MessageBox.open(self.south.dsn) as there:
            there.define(CONTRACT, sq.Service("Seller", queue="sales", contracts=["PurchaseOrder"]))
            accepted = {"certificate": mine.certificate, "other": str(here.id), "services": ["Buyer"]}
            links.accept(there, "north", **accepted, actor="test", reason="a test")
            url = f"https://127.0.0.1:{self.wire.port}"
            here.define(
                CONTRACT, sq.Link("south", url=url, **mine.as_link()), sq.Service("Buyer", queue="bought"),
                sq.Service("Seller", at="south"),
            )  # fmt: skip
        order_talkers.make(self.north.dsn, self.south.dsn, ORDERS)
        listens = (
            *("serve", "--dsn", self.south.dsn, "--listen", f"127.0.0.1:{port}"),
            *("--certificate", its.certificate, "--key", its.key, "--authority", its.authority),
        )
        self.crews = [
            Crew(lambda _: command("serve", "--dsn", self.north.dsn), folder / "north-serve"),
            Crew(lambda _: command(*listens), folder / "south-serve"),
            Crew(lambda name: order_talkers.words("buyer", name, self.north.dsn, LIFETIME_S), folder / "buyers"),
            Crew(lambda name: order_talkers.words("seller", name, self.south.dsn), folder / "sellers"),
        ]
        self._started = 0
        for crew, processes in zip(self.crews, (1, 1, 2, 2), strict=True):
            self._stack.callback(crew.kill_all)
            for _ in range(processes):
                self._start(crew)

    def _end(self, folder: Path, name: str) -> End:
        server = EmbeddedServer(folder / name)
        self._stack.callback(server.close)
        return End(name, server.dsn, "", "", folder / name, server)

    def _start(self, crew: Crew) -> None:
        self._started += 1
        crew.start(f"p{self._started}")

    def _replace(self, crew: Crew) -> None:
        crew.look()
        if crew.running:
            crew.kill(self.chance)
        self._start(crew)

    def _freeze(self) -> None:
        """The wire swallows everything for a moment, and then its connections are cut."""
        self.wire.is_hole = True
        threading.Event().wait(self.chance.uniform(0.2, 1.5))
        self.wire.is_hole = False
        self.wire.cut()

    def fail(self) -> None:
        """Let everything fail in turn, while orders are talked about."""
        ends = [partial(end.kill_server, self.chance) for end in (self.north, self.south)]
        acts = [*(partial(self._replace, crew) for crew in self.crews), *ends, self.wire.cut, self._freeze] * ENDS
        self.chance.shuffle(acts)
        done = ORDERS * len(KINDS)
        for step, act in enumerate(acts):
            self.wait_until(lambda step=step: self.heard() >= done * step // (2 * len(acts)))
            act()
        self.wire.improve(FAULTY)

    def heard(self) -> int:
        """How many messages the sellers have written down; 0 while there is no server."""
        try:
            with psycopg.connect(self.south.dsn, connect_timeout=60) as connection:
                return connection.execute("SELECT count(*) FROM heard").fetchone()[0]
        except psycopg.OperationalError:
            return 0

    def is_over(self) -> bool:
        """Whether all orders were sent, no side is open any more, and nothing is on its way."""
        try:
            with psycopg.connect(self.north.dsn) as here, psycopg.connect(self.south.dsn) as there:
                left = here.execute("SELECT count(*) FROM plan WHERE NOT over AND sent < %s", [len(KINDS)]).fetchone()[
                    0
                ]
                return not left and not any(
                    one.execute(
                        "SELECT EXISTS (SELECT FROM seriatim.endpoints WHERE state <> 'CD') OR EXISTS (SELECT FROM seriatim.transmission)"
                        " OR EXISTS (SELECT FROM seriatim.dialog_inbox)"
                    ).fetchone()[0]
                    for one in (here, there)
                )
        except psycopg.OperationalError:
            return False

    def wait_until(self, holds) -> None:
        """Wait, and see to it that nobody has failed."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, self.left()
            for crew in self.crews:
                crew.look()
            time.sleep(0.1)

    def left(self) -> list[tuple]:
        """Sides that are open, and what waits."""
        rows = []
        for end in (self.north, self.south):
            with psycopg.connect(end.dsn) as connection:
                rows += connection.execute(
                    "SELECT conversation_id, state, is_initiator, waiting, transmission_status FROM seriatim.dialogs"
                    " WHERE state <> 'CD' OR waiting > 0 LIMIT 20"
                ).fetchall()
        return rows

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def firms(tmp_path: Path) -> Iterator[Firms]:
    found = Firms(tmp_path, random.Random(seed()))
    yield found
    found.close()


def told(dsn: str) -> dict:
    """By conversation what was written down: type, number and body of each message."""
    found = defaultdict(list)
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT conversation, type, sequence, body, replayed FROM heard ORDER BY id")
        for conversation, kind, sequence, body, replayed in rows:
            assert not replayed  # no box went back
            found[conversation].append((kind, sequence, body))
    return found


def in_order(messages: list, expected: list) -> bool:
    """Whether numbered messages are the first of what was to come, each once, and whether an error is there once at most."""
    numbered = [(kind, sequence) for kind, sequence, _ in messages if sequence is not None]
    errors = [kind for kind, sequence, _ in messages if sequence is None]
    return numbered == expected[: len(numbered)] and errors in ([], ["Error"])


def code(messages: list) -> int | None:
    """The code of the error that came."""
    return next((json.loads(body)["code"] for kind, _, body in messages if kind == "Error"), None)


@pytest.mark.proves("orders between two boxes come to the end that was meant for them though all on the way fails")
@pytest.mark.soak
def test_each_order_comes_to_its_end_on_both_sides(firms, figures):
    begun = time.monotonic()
    firms.fail()
    firms.wait_until(firms.is_over)
    by_buyer, by_seller = told(firms.north.dsn), told(firms.south.dsn)
    said = [*((kind, nth) for nth, kind in enumerate(KINDS)), ("EndDialog", len(KINDS))]
    answered = [*(("Answer", nth) for nth in range(ANSWERS)), ("EndDialog", ANSWERS)]
    with psycopg.connect(firms.north.dsn) as connection:
        plan = connection.execute("SELECT purchase, fate, conversation, sent FROM plan ORDER BY purchase").fetchall()
    assert len(plan) == ORDERS
    for purchase, fate, conversation, sent in plan:
        bought, sold = by_buyer[conversation], by_seller[conversation]
        told_of = (purchase, fate, bought, sold)
        assert in_order(sold, said), told_of
        assert in_order(bought, answered), told_of
        assert all(json.loads(body) == [purchase, fate, nth] for _, nth, body in sold if body and nth is not None), (
            told_of
        )
        if fate == "completes":
            assert sent == len(KINDS)
            assert [one[:2] for one in sold] == said, told_of
            assert [one[:2] for one in bought][:ANSWERS] == answered[:ANSWERS], told_of
        elif fate == "buyer fails":
            # A seller that has heard nothing never knew of it.
            assert code(sold) == CODES[fate] if sold else not bought, told_of
        elif fate == "seller fails":
            assert code(bought) == CODES[fate], told_of
        else:
            assert code(bought) == CODES[fate], told_of
            assert not sold or code(sold) == CODES[fate], told_of
    for end in (firms.north, firms.south):
        with sq.MessageBox.open(end.dsn) as box:
            assert invariants.broken(box) == []
            with box.access.transaction() as transaction:
                forget_closed(transaction, 0)
                assert transaction.connection.execute("SELECT count(*) FROM seriatim.endpoints").fetchone() == (0,)
    assert not full() or firms.wire.faults.keys() == SEALED
    figures(
        f"{ORDERS:,} orders, {sum(crew.killed for crew in firms.crews)} processes and {2 * ENDS} servers killed, {2 * ENDS} cuts, "
        f"{sum(firms.wire.faults.values())} faults of the wire, {time.monotonic() - begun:.0f} s"
    )
