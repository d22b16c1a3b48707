"""Two boxes on two servers, queues of each in the other, and a bad wire between: everything is killed and cut in turn, and then a box is
copied, another one promoted, and one restored. The checker reads what the handlers at both ends wrote down themselves.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import identity, invariants, links
from seriatim.operations.events import events_after
from seriatim.operations.links import transmit
from seriatim.operations.operator_log import operator_log
from tests.base_backup import COPY, RECOVERY, STANDBY, back_up, server_on, waits_for
from tests.command import command
from tests.faults import transmitters
from tests.faults.checker import assert_good
from tests.faults.crew import Crew
from tests.faults.history import Findings, History, Sent
from tests.faults.link_handlers import handled, make_log
from tests.faults.wire import PLAIN, Wire
from tests.soak import seed, sized

MESSAGES, GROUPS = sized(20_000, 1_000), sized(500, 40)
#: How often each of the two servers, each process and the wire are ended.
ENDS = sized(12, 1)
A_FEW = sized(2_000, 120)
#: One of so many requests meets a fault of the wire. Few are made in the small suite: more of them do, as long as processes are killed.
FAULTY = 12
BATCH = 25
DEADLINE_S = 900.0
BY = {"actor": "test", "reason": "a test"}
ORDER = sq.MessageType("order", properties={"customer": "string"})
HANDLER = sq.Activation("tests.faults.link_handlers:handle", minimum=1, batch=True)
ENDED = "stream restored"


@dataclass
class End:
    """A box, its server, and what it has sent and handles.

    `queue`: of the other box, into which this one sends. `handles`: its own.
    """

    name: str
    dsn: str
    queue: str
    handles: str
    folder: Path = Path()
    server: EmbeddedServer | None = None
    sent: list[Sent] = field(default_factory=list)

    @property
    def data(self) -> Path:
        """The folder of the server's data, as long as that is the first one."""
        return self.folder / "data"

    def publish(self, prefix: str, numbers: range, groups: int) -> None:
        """Publish messages in transactions that are on disk when they end; again, until each is done."""
        for first in range(numbers.start, numbers.stop, BATCH):
            messages = [
                sq.Message(
                    type="order", message_id=f"{prefix}{nth}", body=f"this is {prefix}{nth}".encode(),
                    context={"to": self.queue, "customer": f"{prefix}{nth % groups}"},
                )
                for nth in range(first, min(first + BATCH, numbers.stop))
            ]  # fmt: skip
            ended = None
            while ended is None:
                began = time.monotonic_ns()
                with (
                    suppress(sq.Unavailable, sq.EnvironmentProblem, psycopg.OperationalError),
                    sq.MessageBox.open(self.dsn, connections=1) as box,
                ):
                    with box.session() as tx:
                        tx.publish(messages)
                        tx.connection.execute("SET LOCAL synchronous_commit = on")
                    ended = time.monotonic_ns()
                self.sent += [
                    Sent(one.message_id, one.context["customer"], None, f"{prefix}{first}", place, began, ended, one.body.decode())
                    for place, one in enumerate(messages)
                ]  # fmt: skip

    def kill_server(self, chance: random.Random) -> None:
        """End its server the hard way; it is started again."""
        with suppress(FileNotFoundError, ProcessLookupError, IndexError):
            note = (self.data / "postmaster.pid").read_text()
            os.kill(int(note.splitlines()[0]), chance.choice((signal.SIGKILL, signal.SIGQUIT)))

    def waits(self) -> int:
        """How many messages haven't been acknowledged by the other box yet."""
        with suppress(sq.Unavailable, sq.EnvironmentProblem), sq.MessageBox.open(self.dsn, connections=1) as box:
            return sum(one.waiting + one.unacknowledged + one.ending for one in links.status(box))
        return 1

    def has_work(self) -> bool:
        """Whether something isn't handled yet."""
        with suppress(psycopg.OperationalError), psycopg.connect(self.dsn) as connection:
            found = connection.execute(
                "SELECT EXISTS (SELECT FROM seriatim.to_route) OR EXISTS ("
                "SELECT FROM seriatim.entries JOIN seriatim.queues USING (queue_id) WHERE queue = %s)",
                [self.handles],
            ).fetchone()
            return found != (False,)
        return True


class Road:
    """Two boxes and the wire between them; `near` has the address of `far`."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance, self.folder = chance, folder
        self._stack = ExitStack()
        self.near, self.far = self._end("near", "orders", "answers"), self._end("far", "answers", "orders")
        self.wire = Wire(self.far.dsn, chance, every=sized(FAULTY, 4))
        self._stack.callback(self.wire.close)
        self._pair()
        self._crews = [
            Crew(lambda _: command("serve", "--dsn", self.near.dsn), folder / "near-serve"),
            Crew(lambda _: command("serve", "--dsn", self.far.dsn), folder / "far-serve"),
            Crew(lambda name: transmitters.words(name, self.near.dsn), folder / "transmitters"),
        ]
        self._started = 0
        for crew in self._crews:
            self._stack.callback(crew.kill_all)
            self.start(crew)

    def _end(self, name: str, queue: str, handles: str) -> End:
        """A server with an empty box, which commits asynchronously."""
        server = EmbeddedServer(self.folder / name)
        self._stack.callback(server.close)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_commit = off")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("CREATE ROLE road LOGIN")
            connection.execute("CREATE ROLE copy_road LOGIN")
        make_log(server.dsn)
        return End(name, server.dsn, queue, handles, self.folder / name, server)

    def _pair(self) -> None:
        with sq.MessageBox.open(self.near.dsn) as here, sq.MessageBox.open(self.far.dsn) as there:
            there.define(ORDER, sq.Queue("orders", group="customer", activation=HANDLER))
            links.accept(there, "near", role="road", other=str(here.id), queues=["orders"], **BY)
            here.define(
                ORDER,
                sq.Link("far", dsn=self.wire.dsn("road"), queues=["answers"]),
                sq.Queue("orders", at="far", group="customer"),
                sq.Queue("answers", group="customer", activation=HANDLER),
            )
            there.define(sq.Queue("answers", at="near", group="customer"))

    @property
    def ends(self) -> tuple[End, End]:
        return self.near, self.far

    @property
    def killed(self) -> int:
        """How many processes were killed."""
        return sum(crew.killed for crew in self._crews)

    def start(self, crew: Crew) -> None:
        """Start another process of a crew."""
        self._started += 1
        crew.start(f"p{self._started}")

    def replace(self, crew: Crew) -> None:
        """Kill a process of a crew, and start another."""
        crew.look()
        if crew.running:
            crew.kill(self.chance)
        self.start(crew)

    def look(self) -> None:
        """See to it that nobody has failed."""
        for crew in self._crews:
            crew.look()

    def acts(self) -> list[Callable[[], None]]:
        """All that can be ended: processes, servers and the wire."""
        processes = [partial(self.replace, crew) for crew in self._crews]
        return [*processes, *(partial(end.kill_server, self.chance) for end in self.ends), self.wire.cut]

    def stop(self, end: End) -> None:
        """Kill the processes and the server of an end for good."""
        for crew in self._of(end):
            crew.kill_all()
        if end.server is not None:
            end.server.close()
            end.kill_server(self.chance)

    def start_side(self, end: End) -> None:
        """Start processes for an end that has none."""
        for crew in self._of(end):
            self.start(crew)

    def enter(self, server: AbstractContextManager[str]) -> str:
        """The DSN of a server, which runs as long as the road is there."""
        return self._stack.enter_context(server)

    def _of(self, end: End) -> list[Crew]:
        return self._crews[::2] if end is self.near else self._crews[1:2]

    def carry(self) -> None:
        """Wait until nothing waits any more at either end."""
        deadline = time.monotonic() + DEADLINE_S
        # What has left one end is at the other one. Whether there is work is asked first, too: that is the cheaper question.
        while (
            any(end.has_work() for end in self.ends)
            or any(end.waits() for end in self.ends)
            or any(end.has_work() for end in self.ends)
        ):
            assert time.monotonic() < deadline
            self.look()
            time.sleep(0.02)

    def publish(self, prefix: str, numbers: range, groups: int) -> None:
        """Publish messages with these numbers at both ends at once."""
        publishers = [
            threading.Thread(target=one.publish, args=[f"{prefix}{one.name}-", numbers, groups], daemon=True)
            for one in self.ends
        ]
        for one in publishers:
            one.start()
        for one in publishers:
            one.join(DEADLINE_S)
            assert not one.is_alive()

    def close(self) -> None:
        self._stack.close()


def part(whole: int, nth: int, parts: int) -> range:
    """The numbers of one of so many parts."""
    return range(nth * whole // parts, (nth + 1) * whole // parts)


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    found = Road(tmp_path_factory.mktemp("road"), random.Random(seed()))
    yield found
    found.close()


def checked(
    sender: End, receiver: End, prefix: str, *, lost: Counter[str | None] | None = None, may_repeat: bool = False
) -> Findings:
    """What the handlers have done with the messages of a sender, if it is as it should be.

    Args:
        lost: how many messages of each group are lost, as events say; None: none is.
        may_repeat: whether messages may have come that are marked as replayed.
    """
    plain, replayed = handled(receiver.dsn, prefix)
    sent = [one for one in sender.sent if one.message_id.startswith(prefix)]
    certain = {one.message_id for one in sent if one.ended is not None}
    assert may_repeat or not replayed
    assert {one.message_id for one in replayed} <= {one.message_id for one in sent}
    there = {one.message_id for one in plain}
    aside = dict.fromkeys({one.message_id for one in replayed} - there, "replayed")
    gone = certain - there - aside.keys()
    by_group = Counter(one.group for one in {one.message_id: one for one in sent}.values() if one.message_id in gone)
    assert all(number <= (lost or {}).get(group, 0) for group, number in by_group.items()), by_group
    aside |= dict.fromkeys(gone, "lost")
    return assert_good(History(sq.Fifo(), sent, plain, aside, frozenset({"replayed", "lost"})))


def lost_there(dsn: str, prefix: str) -> Counter[str | None]:
    """By group, how many messages a box says to have lost, of groups whose keys begin so."""
    lost: Counter[str | None] = Counter()
    with sq.MessageBox.open(dsn, connections=1) as box:
        for one in events_after(box, kinds="restored", limit=100_000):
            if str(one.group).startswith(prefix):
                lost[one.group] += one.count
    return lost


@pytest.mark.proves("a link delivers once and in order though both ends, both servers and the wire fail")
@pytest.mark.soak
def test_killed_and_cut_at_random_they_lose_repeat_and_reorder_nothing(road, figures):
    begun = time.monotonic()
    acts = road.acts() * ENDS
    road.chance.shuffle(acts)
    for step, act in enumerate(acts):
        road.publish("kill-", part(MESSAGES // 2, step, len(acts)), GROUPS // 2)
        act()
        road.look()
    road.carry()
    road.wire.improve(FAULTY)
    found = [checked(a, b, "kill-") for a, b in (road.ends, road.ends[::-1])]
    assert sum(one.handled for one in found) == sum(one.sent for one in found) == MESSAGES
    for end in road.ends:
        with sq.MessageBox.open(end.dsn) as box:
            assert [one for one in operator_log(box) if one.action == ENDED] == []
            assert invariants.broken(box) == []
    faults = road.wire.faults
    assert sum(faults.values()) > 0
    # Each comes before any comes twice, but for one that waits for its moment.
    assert len(faults) >= min(sum(faults.values()), len(PLAIN) - 1)
    figures(
        f"{sum(one.sent for one in found):,} messages over {sum(one.groups for one in found):,} groups, {road.killed} processes and"
        f" {2 * ENDS} servers killed, {ENDS} cuts, {sum(faults.values())} faults of the wire, {time.monotonic() - begun:.0f} s"
    )


@pytest.mark.proves("a copy of a box sends nothing that its original sends")
@pytest.mark.soak
def test_a_copied_box_sends_under_its_own_id_beside_the_original(road, tmp_path, figures):
    """The copy is made while messages are on their way: the original sends these, and the copy doesn't."""
    road.near.publish("copied-near-", part(A_FEW, 0, 3), 10)
    back_up(road.near.dsn, tmp_path)
    road.near.publish("copied-near-", part(A_FEW, 1, 3), 10)
    settings = "restore_command = 'false'\nrecovery_target = 'immediate'\nrecovery_target_action = 'promote'"
    with server_on(tmp_path, road.near.data, RECOVERY, settings) as dsn:
        waits_for(dsn, "SELECT NOT pg_is_in_recovery()")
        copy = End("copy", dsn, "orders", "answers")
        with sq.MessageBox.open(dsn) as box, sq.MessageBox.open(road.far.dsn) as there:
            identity.new_id(box, **BY)
            box.define(sq.Link("far", dsn=road.wire.dsn("copy_road"), queues=["answers"]))
            links.accept(there, "copy", role="copy_road", other=str(box.id), queues=["orders"], **BY)
            copy.publish("copied-copy-", range(A_FEW // 3), 10)
            road.near.publish("copied-near-", part(A_FEW, 2, 3), 10)
            while copy.waits():
                transmit(box, at_once=True)
        road.carry()
    found = [checked(one, road.far, f"copied-{one.name}-") for one in (road.near, copy)]
    assert [one.handled for one in found] == [A_FEW, A_FEW // 3]
    figures(f"{sum(one.handled for one in found):,} messages of a box and its copy")


@pytest.mark.proves("a peer notices by the chain that a box was restored")
@pytest.mark.soak
def test_a_restored_box_that_sends_first_loses_nothing_in_silence(road, tmp_path, figures):
    """Its server starts on an older copy of its files, so that nothing but the chains tells that it went back."""
    road.publish("restored-", part(A_FEW, 0, 4), 10)
    road.carry()
    back_up(road.near.dsn, tmp_path)
    road.publish("restored-", part(A_FEW, 1, 4), 10)
    road.carry()
    road.stop(road.near)
    road.near.dsn = road.enter(server_on(tmp_path, road.near.data, COPY))
    road.near.publish("restored-near-", part(A_FEW, 2, 4), 10)
    road.start_side(road.near)
    road.publish("restored-", part(A_FEW, 3, 4), 10)
    road.carry()
    with sq.MessageBox.open(road.near.dsn) as box:
        assert box.incarnation == 1
    lost = lost_there(road.near.dsn, "restored-")
    assert sum(lost.values()) >= len(part(A_FEW, 1, 4))
    # What far had handled stays handled there, and near goes on behind it.
    assert checked(road.near, road.far, "restored-near-", may_repeat=True).sent == A_FEW
    there = checked(road.far, road.near, "restored-far-", lost=lost, may_repeat=True)
    figures(
        f"{A_FEW + there.sent:,} messages of a restored box and its peer, {there.sent - there.handled} lost or marked"
    )


@pytest.mark.proves("a promoted standby goes on with its links, and tells which messages it lost")
@pytest.mark.soak
def test_a_promoted_box_goes_on_and_says_what_it_lost(road, tmp_path, figures):
    """The standby isn't sent what the primary has acknowledged last, and then the primary is killed."""
    road.publish("promoted-", part(A_FEW, 0, 4), 10)
    back_up(road.far.dsn, tmp_path)
    standby = server_on(tmp_path, road.far.data, STANDBY, f"primary_conninfo = '{make_conninfo(road.far.dsn)}'")
    dsn = road.enter(standby)
    road.publish("promoted-", part(A_FEW, 1, 4), 10)
    with psycopg.connect(road.far.dsn, autocommit=True) as primary:
        (position,) = primary.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    waits_for(dsn, f"SELECT pg_last_wal_replay_lsn() >= '{position}'")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        connection.execute("SELECT pg_reload_conf()")
        waits_for(dsn, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
        certain = len(road.far.sent)
        road.publish("promoted-", part(A_FEW, 2, 4), 10)
        road.carry()
        road.far.sent[certain:] = [replace(one, ended=None) for one in road.far.sent[certain:]]
        road.stop(road.far)
        connection.execute("SELECT pg_promote()")
    road.far.dsn = dsn
    road.wire.lead_to(dsn)
    road.start_side(road.far)
    road.publish("promoted-", part(A_FEW, 3, 4), 10)
    road.carry()
    with sq.MessageBox.open(dsn) as box:
        assert box.incarnation == 2
    lost = lost_there(dsn, "promoted-")
    assert sum(lost.values()) >= len(part(A_FEW, 2, 4))
    found = [
        checked(road.near, road.far, "promoted-near-", lost=lost, may_repeat=True),
        checked(road.far, road.near, "promoted-far-", may_repeat=True),
    ]
    figures(f"{sum(one.sent for one in found):,} messages of a promoted box and its peer, {sum(lost.values())} lost")
