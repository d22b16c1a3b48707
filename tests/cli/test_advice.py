"""Every command that a view or a refusal advises is accepted in the state in which it is advised.

The views are asked as people ask them, so a new advice is tried without a line here. Each command runs on a box of its own, as it was when
the command was advised.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.faults.faults import Fault, fail
from seriatim.box.faults.lease import claim
from seriatim.box.operators import dead_letters as letters
from seriatim.box.operators.actions import ActionRequest, act, retry_messages, take_out
from seriatim.box.operators.operator_log import Operator
from seriatim.cli.main import main
from seriatim.console.causes import actions_of, causes_of, filter_of
from seriatim.errors import SeriatimError
from seriatim.kernel.groups.verbs import Action
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import bulk, bulk_operations, dead_letters, groups, messages, queues, subscriptions
from tests.advice import Advised, advised
from tests.box.console import BUSINESS, BY, TRANSIENT, define, failing, publish, rows
from tests.box.fed import feed
from tests.console.conftest import Client
from tests.databases import box_with, fresh_box

#: Keys that a shell, or the command line, would read otherwise.
NASTY = ("-x", "it's", "a b; c", "$(e)")


def handle(message: sq.Received, tx: sq.Session) -> None:
    """For the commands that ask for a handler."""


def prepared(box: sq.MessageBox) -> None:
    """Groups, queues and messages in each state in which somebody advises something."""
    define(box, sq.Standard(capacity=8), retry_delay="1h", attempts=2)
    for key in ("hole", *NASTY):
        publish(box, 2, 3, group=key)
        with box.session() as tx:
            assert tx.receive("shop", group=key) is None
    publish(box, *range(2, 14), group="full")  # some are rejected
    for key in ("faulted", "dead"):
        publish(box, 1, 2, group=key)
        failing(box, BUSINESS, group=key)
    groups.skip_message(box, "shop", "dead", **BY)
    publish(box, 1, group="again")
    failing(box, TRANSIENT, group="again")
    publish(box, 1, 2, group="asked")
    groups.suspend(box, "shop", "asked", **BY)
    publish(box, 1, 2, 4, group="closing")
    groups.close(box, "shop", "closing", **BY)
    publish(box, 2, 3, group="closed")
    groups.close(box, "shop", "closed", at_once=True, **BY)
    publish(box, 4, group="closed")
    publish(box, 3, group="fresh")
    publish(box, 2, group="passed")
    with box.session() as tx:
        assert tx.receive("shop", group="passed") is None
    groups.skip_hole(box, "shop", "passed", **BY)
    publish(box, 1, group="passed")
    publish(box, 1, group="leased")
    with box.session() as tx:
        claim(tx.transaction, tx.receive("shop", group="leased"), 1, "w1", 60_000_000)
    publish(box, 1, group="later")
    with box.session() as tx:
        tx.receive("shop", group="later").postpone("1h")
    _queues(box)
    _gate(box)
    box.publish(sq.Message(type="nobody's"))
    box.publish(sq.Message(type="order", context={"version": 1}))  # invalid
    views = groups.groups(box, "shop", key="asked", state="suspended")
    found = bulk_operations.gather(box, groups.Action.RESUME, views, chosen_by={}, **BY)
    bulk_operations.begin(box, found.bulk_id)
    rows(box, "UPDATE {schema}.bulk_operations SET begun_at = begun_at - interval '1 minute' RETURNING 1")
    with feed(box, "piped") as reading:  # a pipeline that is gone, with a message in hand
        reading.next("", 0, 1)
    # A minute later, and an hour for the messages.
    rows(box, "UPDATE {schema}.known_groups SET since = since - 60000000 WHERE since > 0 RETURNING 1")
    rows(box, "UPDATE {schema}.entries SET rank = rank - 3600000000 RETURNING 1")


def _queues(box: sq.MessageBox) -> None:
    """Queues with other policies, and those that are off, full, stopped, left alone, or a pipeline's."""
    for name, policy, more in (
        ("timed", sq.Standard(hole_timeout=0.001), {}),
        ("mended", sq.Standard(late="suspend"), {}),
        ("anew", sq.Standard(restart_after=2), {}),
        ("careful", sq.Standard(restart_after=2, on_restart="suspend"), {}),
        ("window", sq.BestEffort(window="1h"), {}),
        ("set", sq.UnitOfWork(size=3), {}),
        ("hotel", sq.Standard(), {"opens": "version = 9"}),
        ("small", sq.Standard(), {"max_messages": 1, "when_full": "refuse"}),
        ("quiet", sq.Standard(), {}),
        ("alone", sq.Fifo(), {}),
        ("dark", sq.Fifo(), {}),
        ("piped", sq.Fifo(), {}),
        ("single", sq.Unordered(), {}),
    ):
        numbered = {"sequence": "version"} if not isinstance(policy, sq.Fifo | sq.Unordered) else {}
        keyed = {} if isinstance(policy, sq.Unordered) else {"group": "customer"}
        box.define(
            sq.MessageType(name, properties={"customer": "string", "version": "long"}),
            sq.Queue(name, policy, **keyed, **numbered, enabled=name != "dark", **more),
            sq.Subscription(name, f"type = '{name}'", name),
        )
    for name, numbers in (
        ("timed", (2, 3)), ("window", (1,)), ("set", (1, 2)), ("hotel", (1,)), ("small", (1,)), ("quiet", (1,)),
        ("alone", (1,)), ("dark", (1,)), ("piped", (1,)), ("single", (1,)),
    ):  # fmt: skip
        _publish(box, name, *numbers)
    for name in ("mended", "anew", "careful"):
        _publish(box, name, 5)
        _receive(box, name)
        groups.skip_hole(box, name, "c1", **BY)
        _receive(box, name)
        _publish(box, name, 1, 2, 3)
    for name in ("timed", "window", "set", "hotel", "mended", "anew", "careful"):
        _receive(box, name)
    subscriptions.stop(box, "quiet")


def _publish(box: sq.MessageBox, name: str, *numbers: int) -> None:
    box.publish([sq.Message(type=name, context={"customer": "c1", "version": one}) for one in numbers])


def _receive(box: sq.MessageBox, name: str) -> None:
    with box.session() as tx:
        if (delivery := tx.receive(name)) is not None:
            delivery.done()


def _gate(box: sq.MessageBox) -> None:
    """Gates that wait for a message that failed by itself, for one that stopped its group, and for one in a queue that is off."""
    out = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
    for name, policy in (("jobs", sq.Fifo()), ("loose", sq.Unordered()), ("resting", sq.Fifo())):
        gate = replace(out, name=f"{name}-out")
        box.define(
            sq.MessageType(name, {"key": "string"}), gate,
            sq.Queue(name, policy, group="key", gate=gate.name, attempts=1), sq.Subscription(name, f"type = '{name}'", name),
        )  # fmt: skip
        box.publish([sq.Message(type=name, context={"key": "k"}) for _ in range(2)])
        with box.session() as tx:
            delivery = tx.receive(name, limit=1)
            if name != "resting":
                fail(tx.transaction, delivery, 0, 1, Fault(FaultKind.BUSINESS, "ValueError", "no price", "w1"))
            else:
                delivery.put_back()
        _receive(box, gate.name)
    queues.turn_off(box, "resting")


box = box_with(prepared, scope="module")
#: They work until they are stopped: their words alone are read.
_WITHOUT_END = {("serve",), ("run",)}
#: The exit codes of commands that look, and find something.
_FINE = {("doctor",): (0, 1), ("health",): (0, 1)}
#: Commands that are advised somewhere; without them the views weren't read.
_EXPECTED = {
    ("group", "retry"), ("group", "skip-message"), ("group", "skip-hole"), ("group", "resume"), ("group", "restart"),
    ("group", "abort"), ("group", "show"), ("queue", "on"), ("queue", "release"), ("subscription", "start"), ("work",),
    ("messages", "list"), ("messages", "retry"), ("bulk", "follow"), ("unrouted",), ("dead-letters", "list"),
}  # fmt: skip


def _where(of: sq.MessageBox, words: list[str]) -> list[str]:
    """A command that looks at a box."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--dsn", of.dsn, "--schema", of.schema, *words[at:]]


def _looks(of: sq.MessageBox) -> Iterator[list[str]]:
    """What people ask a box."""
    yield from (
        ["doctor"], ["queues"], ["groups", "--all"], ["subscriptions"], ["workers"], ["schedules"], ["types"], ["dialogs", "list"],
        ["instances", "list"], ["link", "status"], ["transmission"], ["bulk", "list"], ["unrouted"], ["dead-letters", "list"], ["messages", "list"], ["faults"], ["events"], ["log"], ["box", "status"], ["health"],
    )  # fmt: skip
    for name in of.definitions().queues:
        yield ["queue", "show", name]
    for view in groups.groups(of):
        yield ["group", "show", "--queue", view.queue, "--", view.group]
        yield ["trace", "--group", view.group, "--queue", view.queue]
    for one in {one.message_id for one in messages.messages(of, limit=1000)}:
        yield ["messages", "show", "--", one]
        yield ["trace", "--", one]
        yield ["find", "--", one]
    for word in ("hole", "no such thing"):
        yield ["find", word]


def _refusals(of: sq.MessageBox) -> Iterator[str]:
    """What is said where an action on a group, a message, a dead letter or a queue is refused."""
    by = Operator(**BY)
    definitions = of.definitions()
    for view in groups.groups(of):
        for action in set(Action) - {Action.REQUEUE}:
            given = {"next": 1} if action is Action.RESET else {}
            asked = ActionRequest(action, view.queue, view.group, **BY, given=given)
            yield from _said(of, lambda tx, asked=asked: act(tx.transaction, asked))
    for one in messages.messages(of, limit=1000):
        if one.queue is not None:
            queue = definitions.queue(one.queue)
            yield from _said(of, lambda tx, one=one, queue=queue: take_out(tx.transaction, queue, one.message_id, by))
            yield from _said(of, lambda tx, one=one, queue=queue: _retried(tx, queue, one.message_id, by))
    for letter in dead_letters.dead_letters(of):
        yield from _said(of, lambda tx, letter=letter: letters.requeue(tx.transaction, [letter], by))
    for name in definitions.queues:
        yield from _said(of, lambda tx, name=name: tx.receive(name))
        yield from _said(of, lambda _, name=name: of.drop(queue=name))


def _retried(tx: sq.Session, queue: BoxQueue, message_id: str, by: Operator) -> None:
    for one in retry_messages(tx.transaction, queue, [message_id], by).values():
        if isinstance(one, SeriatimError):
            raise one


def _said(of: sq.MessageBox, work: Callable[[sq.Session], object]) -> Iterator[str]:
    try:
        with of.session() as tx:
            work(tx)
            tx.connection.rollback()
    except SeriatimError as error:
        yield f"{error}\n{error.remedy}"


def _accepts(of: sq.MessageBox, one: Advised, files: dict[str, str]) -> str | None:
    """Why a box doesn't accept a command; None: it does."""
    if one.path in _WITHOUT_END:
        one.command.make_context(one.path[-1], [files.get(word, word) for word in one.words[len(one.path) :]])
        return None
    given = [
        *(("--dsn", of.dsn) if one.takes("--dsn") else ()), *(("--schema", of.schema) if one.takes("--schema") else ()),
        *(("--reason", "tried") if one.takes("--reason") else ()), *(("--yes",) if one.takes("--yes") else ()),
        *(("--once",) if one.path == ("work",) else ()),
    ]  # fmt: skip
    if isinstance(one.command, click.Group):
        given = ["--help"]
    done = CliRunner().invoke(main, one.with_options(*given, replaced=files))
    return None if done.exit_code in _FINE.get(one.path, (0,)) else f"{one}: {done.exit_code}, {done.output}"


def _pages(of: sq.MessageBox) -> Iterator[tuple[str, str]]:
    """The pages of the console to which links lead, each in one form, as text."""
    client, left, seen = Client(of), ["/"], {"/"}
    while left:
        address = left.pop(0)
        answer = client.get(address, follow_redirects=True)
        assert answer.status_code == 200, (address, answer.text)
        yield address, html.unescape(re.sub(r"<[^>]*>", "\n", answer.text))
        for found in map(html.unescape, re.findall(r'href="(/[^"]*)"', answer.text)):
            path = found.partition("?")[0]
            if path not in seen and not path.startswith("/static") and "." not in path.rpartition("/")[2]:
                seen.add(path)
                left.append(found)


@pytest.mark.dear
def test_each_command_that_somebody_is_told_is_accepted(box, databases, tmp_path):
    with fresh_box(databases, prepared) as other:  # a console goes on with bulk operations
        told = dict(_pages(other))
    assert len(told) > 50
    for words in _looks(box):
        done = CliRunner().invoke(main, _where(box, words))
        assert done.exit_code in (0, 1), (words, done.output)
        told[" ".join(words)] = done.output
    with fresh_box(databases, prepared) as other:
        told["refusals"] = "\n".join(_refusals(other))
    commands: dict[str, tuple[str, Advised]] = {}
    for where, text in told.items():
        for one in advised(text):
            commands.setdefault(str(one), (where, one))
    (tmp_path / "box.yaml").write_text("queues: {}\n")
    files = {
        "FILE": str(tmp_path / "box.yaml"),
        "MODULE:FUNCTION": f"{__name__}:handle",
        "REGION": "a",
        "QUEUE": "shop",
        "VALUE": "hole",
    }
    looks = {next(advised(f"seriatim {' '.join(words)}")).path for words in _looks(box)}
    refused = []
    for where, one in commands.values():
        with nullcontext(box) if one.path in looks else fresh_box(databases, prepared) as other:
            if (why := _accepts(other, one, files)) is not None:
                refused.append(f"{where}: {why}")
    assert not refused, "\n".join(refused)
    paths = {one.path for _, one in commands.values()}
    assert paths >= _EXPECTED, _EXPECTED - paths


def test_a_group_allows_what_is_accepted_and_nothing_else(box):
    wrong = []
    for view in groups.groups(box):
        standing = groups.standing(box, view.queue, view.group)
        assert set(standing.helps) <= set(standing.allowed)
        for action in set(Action) - {Action.REQUEUE}:
            given = {"next": view.next or 1} if action is Action.RESET else {}
            asked = ActionRequest(action, view.queue, view.group, **BY, given=given)
            said = list(_said(box, lambda tx, asked=asked: act(tx.transaction, asked)))
            is_judged = view.arrived == 0  # an action judges the group first
            if said if action in standing.allowed else is_judged and not said:
                wrong.append(f"{view.queue}, {view.group}, {view.state}: {action}: {said}")
    assert not wrong, "\n".join(wrong)


def test_what_the_console_offers_for_a_cause_fits_groups_that_have_it(box):
    causes = causes_of(box)
    assert {one.error for one in causes} >= {"ValueError", "suspended", "timed_out"}
    for one in causes:
        for action in actions_of(one):
            chosen = bulk.chosen(box, action, groups.GroupFilter(**filter_of(one, every=True)))
            assert chosen, (one.error, action)
            for view in chosen:
                asked = ActionRequest(action, view.queue, view.group, **BY)
                assert list(_said(box, lambda tx, asked=asked: act(tx.transaction, asked))) == []
