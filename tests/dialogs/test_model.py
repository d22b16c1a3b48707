"""Two sides of dialogs, in any interleaving of transactions, rollbacks and ends, against a model that is obviously right.

Two sessions are open at once, one a side. What has to wait for the other is refused at once (a short lock timeout), and
that transaction is rolled back, in the box and in the model.
"""

from __future__ import annotations

import copy
import itertools
from contextlib import ExitStack

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import seriatim as sq
from seriatim.kernel.dialog import RULES, DialogState, Verb
from seriatim.operations import invariants
from tests.dialogs.talking import states
from tests.soak import sized

SIDES = ("initiator", "target")
TYPES = {"initiator": "AddItem", "target": "ItemAdded"}
QUEUES = {"initiator": "orders", "target": "inventory"}
_NUMBERS = itertools.count()


class Side:
    """What the model knows of one side of a dialog: its state, and what waits for it, in order."""

    def __init__(self, state):
        self.state = state
        self.waiting = []


class _RolledBack(Exception):
    pass


class Talking(RuleBasedStateMachine):
    """One dialog after another; each side has a session, which it commits or rolls back."""

    box = None

    @initialize()
    def start(self):
        self.stack = ExitStack()
        self.open = {}
        self.model = {"initiator": Side(DialogState.STARTED_OUTBOUND)}
        self.handles = {}
        with self.box.session() as tx:
            self.handles["initiator"] = tx.begin_dialog("Orders", "Inventory", contract="AddItem")

    # ---- transactions: what a side did and hasn't committed yet

    def session(self, side):
        if side not in self.open:
            connection = psycopg.connect(self.box.dsn, options="-c lock_timeout=50")
            context = self.box.session(connection)
            self.open[side] = (connection, context, context.__enter__(), [])
        return self.open[side]

    def commit(self, side):
        connection, context, _, done = self.open.pop(side)
        context.__exit__(None, None, None)
        connection.commit()
        connection.close()
        for change in done:
            change()

    def roll_back(self, side):
        connection, context, _, _ = self.open.pop(side)
        context.__exit__(_RolledBack, _RolledBack(), None)
        connection.rollback()
        connection.close()

    def tried(self, side, action):
        """What a side does; None if it had to wait for the other side, and is rolled back."""
        try:
            return action(self.session(side)[2])
        except sq.Unavailable:
            self.roll_back(side)
            return None

    def seen(self, side):
        """The state of a side as its own transaction sees it: committed, and then what it has done."""
        model = copy.deepcopy(self.model)
        for change in self.session(side)[3]:
            change(model)
        return model

    def did(self, side, change):
        """Remember what a side did; it happens to everybody at the commit."""
        self.session(side)[3].append(lambda model=None: change(self.model if model is None else model))

    @rule(side=st.sampled_from(SIDES), how_many=st.integers(1, 3))
    def send(self, side, how_many):
        handle = self.handles.get(side)
        if handle is None:
            return
        bodies = [b"%d" % next(_NUMBERS) for _ in range(how_many)]
        other = SIDES[side == "initiator"]
        self.session(side)
        before = self.seen(side)
        refusal = RULES[Verb.SEND, before[side].state].refusal
        try:
            if self.tried(side, lambda tx: tx.send_many([(handle, TYPES[side], b) for b in bodies]) or True) is None:
                return
            refused = False
        except sq.ActionRefused:
            refused = True
        assert refused == (refusal is not None)
        if refused:
            return

        def change(model):
            model[side].state = RULES[Verb.SEND, model[side].state].becomes
            model.setdefault(other, Side(DialogState.STARTED_INBOUND)).waiting.extend(bodies)

        self.did(side, change)

    @rule(side=st.sampled_from(SIDES), limit=st.integers(1, 4), done=st.booleans())
    def receive(self, side, limit, done):
        self.session(side)
        delivery = self.tried(side, lambda tx: tx.receive(QUEUES[side], limit=limit) or ())
        if delivery is None:
            return
        committed = self.seen(side).get(side)
        expected = [] if committed is None else committed.waiting[:limit]
        found = [one.body or one.type.encode() for one in getattr(delivery, "messages", ())]
        assert found == expected
        if not found:
            return
        self.handles.setdefault(side, delivery.messages[0].dialog.handle)
        assert self.handles[side] == delivery.messages[0].dialog.handle
        if done:
            delivery.done()
        else:
            delivery.put_back()

        def change(model):
            model[side].state = RULES[Verb.RECEIVE, model[side].state].becomes
            if done:
                del model[side].waiting[: len(found)]

        self.did(side, change)

    @rule(side=st.sampled_from(SIDES), often=st.integers(0, 2))
    def end(self, side, often):
        handle = self.handles.get(side)
        if handle is None or often:
            return
        other = SIDES[side == "initiator"]
        if self.tried(side, lambda tx: tx.end(handle) or True) is None:
            return

        def change(model):
            outcome = RULES[Verb.END, model[side].state]
            if outcome.becomes != model[side].state and other in model:
                told = RULES[Verb.END_COMES, model[other].state]
                model[other].state = told.becomes
                if told.tells:
                    model[other].waiting.append(b"EndDialog")
            model[side].state = outcome.becomes
            model[side].waiting.clear()

        self.did(side, change)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commits=st.integers(0, 3))
    def finish(self, data, commits):
        side = data.draw(st.sampled_from(sorted(self.open)))
        if commits:
            self.commit(side)
        else:
            self.roll_back(side)

    @invariant()
    def the_committed_states_are_those_of_the_model(self):
        if not hasattr(self, "model"):
            return
        known = states(self.box)
        for side, handle in self.handles.items():
            if handle in known:
                assert known[handle] == self.model[side].state, side

    def teardown(self):
        if not hasattr(self, "model"):
            return
        for side in list(self.open):
            self.commit(side)
        # Everything that is left comes, in order, and everybody ends.
        for side in SIDES:
            while side in self.model and self.model[side].waiting:
                with self.box.session() as tx:
                    found = [one.body or one.type.encode() for one in tx.receive(QUEUES[side], limit=2)]
                assert found == self.model[side].waiting[: len(found)]
                del self.model[side].waiting[: len(found)]
            with self.box.session() as tx:
                assert tx.receive(QUEUES[side]) is None
        for handle in list(states(self.box)):
            with self.box.session() as tx:
                tx.end(handle)
        with self.box.session() as tx:
            for queue in QUEUES.values():
                tx.receive(queue, limit=100)
        assert set(states(self.box).values()) == {"CD"}
        assert invariants.broken(self.box) == []
        with self.box.session() as tx:
            tx.connection.execute(f"SELECT {self.box.schema}.forget_closed('0')")


@pytest.mark.soak
@pytest.mark.parametrize("steps", [60])
def test_any_interleaving_is_as_the_model_says(talk, steps):
    # The model gives up transactions as often as it likes.
    talk.define(
        *(sq.Queue(name, group="conversation_group", retry=sq.Retry(rollbacks=None)) for name in QUEUES.values())
    )
    machine = type("Machine", (Talking,), {"box": talk})
    run = settings(max_examples=sized(1_000, 40, 8), stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(machine, settings=run)
