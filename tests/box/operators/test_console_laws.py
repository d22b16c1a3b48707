"""Whatever operators, publishers and failing handlers do to a group: nothing is lost, and it goes where the tables lead."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seriatim as sq
from seriatim.box.faults.faults import fail
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import VERBS, Action
from seriatim.operations import dead_letters, groups, invariants, messages, set_aside
from tests.box.console import BUSINESS, BY, ORDER, TRANSIENT, rows
from tests.models.transitions import leads
from tests.soak import full, sized

POLICIES = {
    "standard": sq.Standard(late="suspend", start="first"),
    "waiting": sq.Standard(capacity=4),
    "fifo": sq.Fifo(),
    "best": sq.BestEffort(late="deliver"),
    "sets": sq.UnitOfWork(size=3),
}
_KEYS = itertools.count()

#: What may be done, and how often it comes. `mend`: an action that fits.
_WORDS = {
    "publish": 5,
    "receive": 2,
    "fail": 5,
    "stumble": 1,
    "requeue": 4,
    "put_back": 3,
    "mend": 8,
    "any_action": 2,
    "take_out": 4,
}
_STEPS = st.tuples(
    st.sampled_from([word for word, times in _WORDS.items() for _ in range(times)]),
    st.integers(0, 9),
    st.integers(1, 3),
)
WAITS = {"arrived", "held", "queued"}
_ACTIONS = [one for one in Action if one not in (Action.REQUEUE, Action.CLOSE)]


@pytest.fixture
def laws(box):
    box.define(ORDER)
    for name, policy in POLICIES.items():
        sequence = None if isinstance(policy, sq.Fifo) else "version"
        declared = sq.Queue(
            name, policy, group="customer", sequence=sequence, keep="everything", retry_delay=3600, retry_ceiling=3600
        )
        box.define(declared)
    return box


@pytest.mark.soak
@pytest.mark.parametrize("queue", POLICIES)
def test_nothing_is_lost_and_the_order_holds(laws, queue):
    @settings(max_examples=sized(500, 20, 4), derandomize=not full(), database=None)
    @given(script=st.lists(_STEPS, min_size=6, max_size=24), ends=st.integers(0, 3))
    def holds(script, ends):
        _Script(laws, queue, f"g{next(_KEYS)}").run(script, closes=ends == 3)

    holds()
    assert invariants.broken(laws) == []


class _Script:
    """One group, and what is done to it."""

    def __init__(self, box: Any, queue: str, group: str) -> None:
        self.box, self.queue, self.group = box, queue, group
        self.published = 0
        self.ordinals: list[int] = []

    def run(self, script, *, closes):
        self.publish(1, 1)
        for what, nth, many in script:
            getattr(self, what)(nth, many)
        if closes:
            self.act(Action.CLOSE)
            self.act(Action.ABORT)
        assert self.total() == self.published
        assert self.ordinals == sorted(set(self.ordinals)), "ordinals ascend, and none comes twice"
        decided, ordinal = self.row("SELECT decided, ordinal FROM {schema}.known_groups") or ([0] * 7, 0)
        queued, done, dead = (
            (self.row(f"SELECT count(*) FROM {{schema}}.{table}", more) or (0,))[0]
            for table, more in (("entries", "status = 'queued'"), ("history", ""), ("aside", "ordinal IS NOT NULL"))
        )
        assert decided[0] == queued + done + dead, "released = queued + done + dead"
        assert ordinal >= decided[0]
        for nth, disposition in ((2, "late"), (3, "duplicate"), (5, "rejected")):
            (aside,) = self.row("SELECT count(*) FROM {schema}.aside", f"disposition = '{disposition}'")
            assert decided[nth] == aside, disposition

    def publish(self, nth, many):
        context = {"customer": self.group, "to": self.queue}
        versions = range(nth % 6 + 1, nth % 6 + many + 1)
        with self.box.session() as tx:
            tx.publish([sq.Message(type="order", body=b"{}", context=context | {"version": one}) for one in versions])
        self.published += len(versions)

    def receive(self, _, limit):
        with self.box.session() as tx:
            delivery = tx.receive(self.queue, group=self.group, limit=limit)
            if delivery is not None:
                self.ordinals += [one.ordinal for one in delivery]

    def fail(self, _, many):
        if self.tried(many, BUSINESS):
            assert self.state() in (GroupState.FAULTED, GroupState.SUSPENDED)  # where a late message came, too

    def stumble(self, _, many):
        self.tried(many, TRANSIENT)

    def tried(self, many, what):
        before = self.state()
        with self.box.session() as tx:
            delivery = tx.receive(self.queue, group=self.group, limit=many)
            if delivery is None:
                return False
            fail(tx.transaction, delivery, 0, len(delivery), what)
        assert before not in (GroupState.SUSPENDED, GroupState.FAULTED)
        return True

    def mend(self, nth, _):
        fitting = [one for one in _ACTIONS if self.state() in VERBS[one].states]
        if fitting:
            self.act(fitting[nth % len(fitting)])

    def take_out(self, nth, _):
        """One message out of the middle."""
        mine = [one for one in messages.messages(self.box, queue=self.queue, group=self.group) if one.status in WAITS]
        if not mine:
            return None
        one = mine[nth % len(mine)].message_id
        try:
            done = groups.skip_message(self.box, self.queue, self.group, message=one, **BY)
        except sq.ActionRefused as refused:
            # It was late, or a repetition, when it was judged.
            return self.refused(Action.SKIP_MESSAGE, refused)
        assert done.set_aside >= 1
        assert done.after in leads(done.before, Action.SKIP_MESSAGE)
        return None

    def any_action(self, nth, _):
        self.act(_ACTIONS[nth % len(_ACTIONS)])

    def act(self, action):
        more = {"next": 1 + self.published % 7} if action is Action.RESET else {}
        try:
            done = groups.act(self.box, action, self.queue, self.group, **BY, **more)
        except sq.ActionRefused as refused:
            self.refused(action, refused)
            return
        retried_early = action is Action.RETRY and done.before is not GroupState.FAULTED
        assert retried_early or done.after in leads(done.before, action)
        assert done.after is self.state()

    def refused(self, action, error):
        """It says the state and what is allowed, unless it is about a number."""
        if "cannot " in str(error) and " that is " in str(error):
            state = GroupState(str(error).split(" that is ")[1].split(" (")[0])
            assert state not in VERBS[action].states
            assert error.remedy.startswith("allowed: ")

    def put_back(self, *_):
        """What is late, a duplicate or rejected: nothing of it is in the group twice, or gone."""
        mine = set_aside.set_aside(self.box, self.queue, group=self.group, status=set_aside.REQUEUED)
        for one in set_aside.requeue_each(self.box, mine, **BY):
            if isinstance(one, set_aside.Refused):
                assert self.state() is GroupState.CLOSED

    def requeue(self, nth, _):
        mine = [one for one in dead_letters.dead_letters(self.box, self.queue) if one.group == self.group]
        if not mine:
            return
        try:
            dead_letters.requeue(self.box, mine[nth % len(mine)].entry_id, **BY)
        except sq.ActionRefused as refused:
            self.refused(Action.REQUEUE, refused)

    def state(self):
        return groups.group_view(self.box, self.queue, self.group).state

    def total(self):
        found = Counter()
        for table in ("entries", "aside", "history"):
            found[table] = (self.row(f"SELECT count(*) FROM {{schema}}.{table}") or (0,))[0]
        return sum(found.values())

    def row(self, query, more=""):
        where = " WHERE group_key = %s" + (f" AND {more}" if more else "")
        return next(iter(rows(self.box, query + where, self.group)), None)
