"""The states of a dialog's side, and the effect of every verb in every state: the table that code, schema and docs share.

A dialog has two sides, each with its own state. An action of a person or a program on a side is a verb; an action of
the other side, a timer or the clock on it is a verb, too, so that one table contains all of them. The schema of a
message box has the same rows, so that its functions decide within one round trip; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

#: The messages that no application sends: the other side has ended, the dialog has failed, the timer is due.
END_DIALOG, ERROR, TIMER = "EndDialog", "Error", "Timer"
OURS = frozenset({END_DIALOG, ERROR, TIMER})
#: The codes of errors that the box itself makes; applications have codes above 0. -4: the boxes have two histories of the dialog, or the
#: other one has none any more. -5: the other box took nothing of it: the application may begin again.
LIFETIME_CODE, INVALID_CODE, COPY_CODE, HISTORY_CODE, UNTAKEN_CODE = -1, -2, -3, -4, -5
#: How long a closed side can still be found by its handle, seconds.
CLOSED_KEPT_S = 1800


class DialogState(StrEnum):
    STARTED_OUTBOUND = "SO"
    STARTED_INBOUND = "SI"
    CONVERSING = "CO"
    DISCONNECTED_INBOUND = "DI"
    DISCONNECTED_OUTBOUND = "DO"
    ERROR = "ER"
    CLOSED = "CD"


#: The names of the states, and their meanings.
LABELS: Mapping[DialogState, tuple[str, str]] = {
    DialogState.STARTED_OUTBOUND: ("started outbound", "begun here, and nothing sent yet"),
    DialogState.STARTED_INBOUND: ("started inbound", "begun by the other side; no message has been received yet"),
    DialogState.CONVERSING: ("conversing", "both sides may send"),
    DialogState.DISCONNECTED_INBOUND: (
        "disconnected inbound",
        "the other side has ended; its messages can still be received",
    ),
    DialogState.DISCONNECTED_OUTBOUND: ("disconnected outbound", "this side has ended, the other side hasn't"),
    DialogState.ERROR: ("error", "the dialog has failed; an Error message says why"),
    DialogState.CLOSED: ("closed", "over for this side; the handle is known for half an hour"),
}


class Verb(StrEnum):
    """The verbs: first the actions of a side itself, then the actions on it from outside."""

    SEND = "send"
    RECEIVE = "receive"
    END = "end"
    END_WITH_ERROR = "end with error"
    CLEAN_UP = "clean up"
    SET_TIMER = "set timer"
    MOVE = "move"
    END_COMES = "end comes"
    ERROR_COMES = "error comes"
    TIMER_FIRES = "timer fires"
    LIFETIME_ENDS = "lifetime ends"
    INVALID_COMES = "invalid comes"
    GONE_COMES = "gone comes"


@dataclass(frozen=True, slots=True)
class Rule:
    """The effect of a verb in a state. `becomes`: the state afterwards. `tells`: the resulting message: to the other side if the verb is
    this side's own, else to this side. `refusal`: the reason for a refusal, in words; then nothing changes.
    """

    becomes: DialogState
    tells: str | None = None
    refusal: str | None = None


_SO, _SI, _CO, _DI, _DO, _ER, _CD = DialogState
_OVER = {_DO: "this side has ended the dialog", _CD: "the dialog is closed"}
_GONE = {_DI: "the other side has ended the dialog", _ER: "the dialog has failed"}


def _row(
    to: Mapping[DialogState, DialogState],
    tells: Mapping[DialogState, str] | None = None,
    refused: Mapping[DialogState, str] | None = None,
) -> dict[DialogState, Rule]:
    """A rule for every state: a state that isn't in `to` stays."""
    says, refusals = tells or {}, refused or {}
    return {state: Rule(to.get(state, state), says.get(state), refusals.get(state)) for state in DialogState}


_OPEN = (_SO, _SI, _CO, _DI)
_ENDS = {_SO: _CD, _SI: _DO, _CO: _DO, _DI: _CD, _ER: _CD}

_ROWS: Mapping[Verb, dict[DialogState, Rule]] = {
    Verb.SEND: _row({_SO: _CO, _SI: _CO}, refused={**_GONE, **_OVER}),
    Verb.RECEIVE: _row({_SI: _CO}),
    # In `DI` the other side is `DO`: it has to learn that it is closed. In one box the verb closes it.
    Verb.END: _row(_ENDS, dict.fromkeys((_SI, _CO, _DI), END_DIALOG)),
    Verb.END_WITH_ERROR: _row(_ENDS, dict.fromkeys((_SI, _CO), ERROR)),
    Verb.CLEAN_UP: _row(dict.fromkeys(DialogState, _CD)),
    Verb.SET_TIMER: _row({}, refused={_ER: _GONE[_ER], **_OVER}),
    Verb.MOVE: _row({}, refused=_OVER),
    Verb.END_COMES: _row({_SI: _DI, _CO: _DI, _DO: _CD}, dict.fromkeys((_SI, _CO), END_DIALOG)),
    Verb.ERROR_COMES: _row({_SI: _ER, _CO: _ER, _DO: _CD}, dict.fromkeys((_SI, _CO), ERROR)),
    Verb.TIMER_FIRES: _row({}, dict.fromkeys(_OPEN, TIMER)),
    Verb.LIFETIME_ENDS: _row({**dict.fromkeys(_OPEN, _ER), _DO: _CD}, dict.fromkeys(_OPEN, ERROR)),
    Verb.INVALID_COMES: _row(dict.fromkeys((_SI, _CO, _DI), _ER), dict.fromkeys((_SI, _CO, _DI), ERROR)),
    # From another box: this dialog's other side is closed or forgotten there, or both boxes have another history of it.
    Verb.GONE_COMES: _row({**dict.fromkeys(_OPEN, _ER), _DO: _CD}, dict.fromkeys(_OPEN, ERROR)),
}

#: The effect of every verb in every state.
RULES: Mapping[tuple[Verb, DialogState], Rule] = {
    (verb, state): rule for verb, row in _ROWS.items() for state, rule in row.items()
}


def rows() -> Iterator[tuple[str, str, str, str | None, str | None]]:
    """The rules as rows of text: verb, state, the state afterwards, the resulting message, the refusal."""
    for (verb, state), rule in RULES.items():
        yield verb.value, state.value, rule.becomes.value, rule.tells, rule.refusal
