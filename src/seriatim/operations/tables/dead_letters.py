"""Dead letters."""

from __future__ import annotations

from seriatim.box.operators.dead_letters import DeadLetter, Requeued
from seriatim.operations.tables.table import Column, Table, columns, json_only


def _reason(letter: DeadLetter) -> str:
    known = letter.error is None or letter.error in letter.reason
    return letter.reason if known else f"{letter.reason}; {letter.error}"


DEAD_LETTERS: Table[DeadLetter] = Table(
    "A dead letter",
    Column("entry_id", "number", shown=lambda one: str(one.entry_id)),
    *columns("queue", "group"),
    Column("message_id", "message"),
    *columns("sequence", "ordinal"),
    Column("attempt", "attempts"),
    Column("reason", shown=_reason),
    Column("aside_at", "set aside", after="number"),
    row=DeadLetter,
)
REQUEUED: Table[Requeued] = Table(
    "A dead letter that was put back",
    Column("letter", None, rows=DEAD_LETTERS),
    *json_only(place="`ordinal`: in its place; `end`; or `arrival`: it is judged as if it came now"),
    row=Requeued,
)
