"""Every verb in every state: the kernel's table, the schema's rows, and what really happens are the same."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.box.dialogs.clock import fire
from seriatim.kernel import dialog
from seriatim.kernel.dialog import RULES, DialogState, Verb
from seriatim.operations import invariants
from tests.dialogs.talking import begun, far_of, let_expire, states

S = DialogState
PAGE = Path(__file__).parents[2] / "docs/reference/dialogs.md"


def test_every_verb_has_a_rule_for_every_state():
    assert set(RULES) == set(itertools.product(Verb, DialogState))
    for (verb, state), rule in RULES.items():
        if rule.refusal is not None:
            assert (rule.becomes, rule.tells) == (state, None), verb


def test_nothing_leads_out_of_closed_and_nothing_is_sent_from_where_it_is_over():
    for verb in Verb:
        assert RULES[verb, S.CLOSED].becomes == S.CLOSED
        assert RULES[verb, S.CLOSED].tells is None
    assert {state for state in S if RULES[Verb.SEND, state].refusal is None} == {
        S.STARTED_OUTBOUND, S.STARTED_INBOUND, S.CONVERSING
    }  # fmt: skip


def test_from_everywhere_the_end_leads_to_closed_or_waits_for_the_other_side():
    for state in S:
        assert RULES[Verb.END, state].becomes in (S.DISCONNECTED_OUTBOUND, S.CLOSED)
        assert RULES[Verb.END_WITH_ERROR, state].becomes == RULES[Verb.END, state].becomes
        assert RULES[Verb.CLEAN_UP, state].becomes == S.CLOSED


def test_the_schema_has_the_rules_of_the_kernel(box):
    with box.session() as tx:
        found = tx.connection.execute(
            f"SELECT verb, state, becomes, tells, refusal FROM {box.schema}.dialog_rules"
        ).fetchall()
    assert sorted(found, key=str) == sorted(dialog.rows(), key=str)


def test_the_page_has_the_table_of_the_kernel():
    assert _as_table() in PAGE.read_text(encoding="utf-8")
    for state, (label, meaning) in dialog.LABELS.items():
        assert f"| `{state}` | {label} | {meaning} |" in PAGE.read_text(encoding="utf-8")


def _as_table():
    """The rules as a table of Markdown: a row for each verb, a column for each state."""
    lines = ["| | " + " | ".join(f"`{state}`" for state in S) + " |", "|---" * (len(S) + 1) + "|"]
    lines += [f"| {verb} | " + " | ".join(_cell(RULES[verb, state]) for state in S) + " |" for verb in Verb]
    return "\n".join(lines) + "\n"


def _cell(rule):
    if rule.refusal is not None:
        return "refused"
    return f"`{rule.becomes}`, `{rule.tells}`" if rule.tells else f"`{rule.becomes}`"


def brought(box, state):
    """A side in a state, with the other one, if there is one; the target's side, except for `SO`."""
    if state is S.STARTED_OUTBOUND:
        return begun(box), None
    handle = begun(box, b"1")
    own = far_of(box, handle)
    with box.session() as tx:
        match state:
            case S.STARTED_INBOUND:
                pass
            case S.CONVERSING:
                tx.receive("inventory", dialog=own).done()
            case S.DISCONNECTED_INBOUND:
                tx.end(handle)
            case S.DISCONNECTED_OUTBOUND:
                tx.end(own)
            case S.ERROR:
                tx.end(handle, error=(1, "no"))
            case S.CLOSED:
                tx.end(own)
                tx.end(handle)
    return own, handle


def do(box, verb, own):
    """Let a verb happen to a side; what can't be done to it from outside is done by the schema's function."""
    with box.session() as tx:
        match verb:
            case Verb.SEND:
                tx.send(own, "Note", b"2")
            case Verb.RECEIVE:
                tx.connection.execute(f"SELECT {box.schema}.converse(ARRAY[%s::uuid])", [own])
            case Verb.END:
                tx.end(own)
            case Verb.END_WITH_ERROR:
                tx.end(own, error=(3, "because"))
            case Verb.CLEAN_UP:
                tx.end(own, cleanup=True)
            case Verb.SET_TIMER:
                tx.set_timer(own, 60)
            case Verb.MOVE:
                tx.move(own, own)
            case Verb.END_COMES | Verb.ERROR_COMES | Verb.TIMER_FIRES | Verb.INVALID_COMES | Verb.GONE_COMES:
                tx.connection.execute(f"SELECT {box.schema}.happen(%s::uuid, %s, 9, 3, 'because')", [own, verb.value])
    if verb is Verb.LIFETIME_ENDS:
        let_expire(box, own)
        fire(box._access)


def told(box):
    """The messages of the box itself that wait, by the handle of who gets them."""
    with box.session() as tx:
        return set(
            tx.connection.execute(
                f"SELECT (context -> 'dialog' ->> 'handle')::uuid, type FROM {box.schema}.spool "
                f"JOIN {box.schema}.entries USING (arrival_id, position) WHERE type = ANY (%s)",
                [list(dialog.OURS)],
            ).fetchall()
        )


@pytest.mark.parametrize("verb", Verb, ids=lambda one: one.replace(" ", "_"))
def test_every_verb_in_every_state_does_what_the_table_says(talk, verb):
    for state in DialogState:
        own, other = brought(talk, state)
        assert states(talk)[own] == state
        rule, before = RULES[verb, state], told(talk)
        if rule.refusal is not None:
            with pytest.raises(sq.ActionRefused, match=rule.refusal):
                do(talk, verb, own)
        elif (verb, state) != (Verb.LIFETIME_ENDS, S.CLOSED):  # it has none any more
            do(talk, verb, own)
        assert states(talk)[own] == rule.becomes, state
        new = told(talk) - before
        mine = verb in (Verb.END, Verb.END_WITH_ERROR, Verb.CLEAN_UP)
        # In one box the far `DO` is closed by the verb itself, and no message says so.
        if rule.tells is not None and (verb, state) != (Verb.END, S.DISCONNECTED_INBOUND):
            assert (other if mine else own, rule.tells) in new, state
        elif verb is not Verb.LIFETIME_ENDS:  # which the other side is told, too
            assert new == set(), state
    assert invariants.broken(talk) == []
