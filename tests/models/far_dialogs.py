"""A model of a dialog between two boxes: two sides without a common lock, and between them streams that a restore may undo.

Each box has one side of the dialog. A verb is an action of its application, which first obeys what has come (the inbox), in the order in which it
came. What a side says goes one of two ways. **Numbers** (messages, and `EndDialog` as the last of its direction) go by a lane; they wait
for it first, and what waits can still be dropped. Each has the chain before it: here the contents so far. **Records outside the numbers**
(`Error`, `gone`) go by a control stream, which the lane may overtake and which may overtake the lane. A **check** goes by the lane after a
stream couldn't be made whole: it has no message, and says where its side is in both directions.

Streams are in short those of `links.py`, which are searched there: in order, once, until one of the boxes goes back in time. Then the answer of the
receiver doesn't fit: what isn't acknowledged goes on in a new stream, and both boxes note that. A restored box is one that was put back to a
backup, or a promoted standby without its last second.

`RULES` of the kernel decides what a verb or a record does to a side. What else the schema does is here: `_obey` and `_does`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from seriatim.kernel.dialog import END_DIALOG, ERROR, RULES, DialogState, Rule, Verb
from tests.models.search import Label, Model

__all__ = ["BROKEN", "FarDialogs", "Talk"]

S = DialogState
#: How the rules can be wrong; each is caught.
BROKEN = (
    "an error waits behind its numbers", "an end is dropped without a word", "a side is forgotten early", "a late number is handed out",
    "an early record is dropped", "a forgotten side is silent", "a closed side is silent", "no chains", "no numbers that are over",
    "no checks", "verbs come before the inbox", "the end of the second isn't told",
)  # fmt: skip


class Record(NamedTuple):
    """Something that one side says. `number` and `chain`: of its direction; of records outside the numbers 0 and nothing. `got`: of a check, what
    came from the other direction. "restored" is the box's own note in its inbox.
    """

    kind: str
    number: int = 0
    content: int = 0
    chain: tuple[int, ...] = ()
    got: tuple[int, ...] = ()


class Out(NamedTuple):
    """A stream that a box sends; `epoch`: which one. What comes before `acked` is known to be on the other disk."""

    epoch: int
    records: tuple[Record, ...] = ()
    acked: int = 0


class In(NamedTuple):
    """A stream that a box receives."""

    epoch: int
    records: tuple[Record, ...] = ()


class Side(NamedTuple):
    """What a box remembers. `state` is None where there is no side: it hasn't begun yet, or is `over`. `sent`, `got`: contents. `handed`: how
    many numbers the application has; `has_end`: and EndDialog; `through`: before which number they came when the Error did.
    """

    state: DialogState | None
    sent: tuple[int, ...] = ()
    got: tuple[int, ...] = ()
    queue: tuple[tuple[str, int], ...] = ()
    inbox: tuple[Record, ...] = ()
    waits: tuple[Record, ...] = ()
    over: bool = False
    failed: bool = False
    handed: int = 0
    has_end: bool = False
    through: int | None = None
    lane: Out = Out(0)
    control: Out = Out(0)
    lane_in: In = In(0)
    control_in: In = In(0)


class Talk(NamedTuple):
    """A state of the model: of the initiator's box, and of the target's. `left`: how often each verb may still happen, of each box."""

    sides: tuple[Side, Side]
    left: tuple[tuple[int, ...], tuple[int, ...]]
    backup: tuple[Side | None, Side | None] = (None, None)
    restores: tuple[int, int] = (0, 0)
    copies: int = 0
    copy: tuple[int, Record] | None = None
    epochs: int = 0
    wrong: str = ""


_VERBS = (Verb.SEND, Verb.END_WITH_ERROR, Verb.CLEAN_UP, Verb.LIFETIME_ENDS)


class FarDialogs(Model[Talk]):
    """The model.

    Args:
        sends, errors, cleanups, lifetimes: how often the initiator's application, and the target's, does that. Each may end its side at any time.
        restores: how often each box goes back.
        copies: how many records of the initiator's lane the network repeats, at any later time.
        receives: whether the applications receive, which no other side sees.
        keeps: what is acknowledged is kept, and sent again to a box that went back.
        broken: one of `BROKEN`.
    """

    def __init__(
        self,
        sends: tuple[int, int] = (1, 1),
        errors: tuple[int, int] = (0, 0),
        cleanups: tuple[int, int] = (0, 0),
        lifetimes: tuple[int, int] = (0, 0),
        restores: tuple[int, int] = (0, 0),
        copies: int = 0,
        *,
        receives: bool = True,
        keeps: bool = False,
        broken: str = "",
    ) -> None:
        assert broken in ("", *BROKEN)
        self._broken, self._keeps, self._receives = broken, keeps, receives
        self._restores = any(restores)
        left = tuple(zip(sends, errors, cleanups, lifetimes, strict=True))
        self.start = Talk((Side(S.STARTED_OUTBOUND), Side(None)), (left[0], left[1]), restores=restores, copies=copies)

    # ---- what happens

    def steps(self, talk: Talk) -> Iterator[tuple[Label, Talk]]:
        """All that can happen next."""
        for me in (
            (0, 1) if self._restores else ()
        ):  # Where boxes go back nothing waits for its lane: that is searched without.
            if (side := talk.sides[me]).waits:
                left = side._replace(waits=(), lane=side.lane._replace(records=side.lane.records + side.waits))
                yield _label(f"what {'IT'[me]} said is in its lane"), _with(talk, me, left)
                return
        for me in (0, 1):
            name, side = "IT"[me], talk.sides[me]
            yield from self._application(talk, me)
            if side.inbox:
                yield _label(f"{name} obeys its inbox"), self._obeyed(talk, me)
            if side.waits:
                moved = side._replace(waits=side.waits[1:], lane=_appended(side.lane, side.waits[0]))
                yield _label(f"a record of {name} leaves by its lane"), _with(talk, me, moved)
            for stream in ("lane", "control"):
                yield from self._contact(talk, me, stream)
            if self._may_forget(side):
                gone = Side(
                    None, over=self._broken != "no numbers that are over", control=side.control, lane=side.lane,
                    lane_in=side.lane_in, control_in=side.control_in, inbox=side.inbox,
                )  # fmt: skip
                if self._broken == "a side is forgotten early":
                    gone = gone._replace(lane=Out(-1), control=Out(-1))
                yield _label(f"{name} forgets its side"), _with(talk, me, gone)
            yield from self._faults(talk, me)

    def _application(self, talk: Talk, me: int) -> Iterator[tuple[Label, Talk]]:
        """What an application and the clock do. Each takes the lock of its side, and obeys its inbox first."""
        name, left = "IT"[me], talk.left[me]
        if talk.sides[me].state is None:
            return
        before = talk if self._broken == "verbs come before the inbox" else self._obeyed(talk, me)
        side = before.sides[me]
        if side.state is None:
            return
        for place, verb in enumerate(_VERBS):
            if left[place] and RULES[verb, side.state].refusal is None and side.state != S.CLOSED:
                spent = (*left[:place], left[place] - 1, *left[place + 1 :])
                after = before._replace(left=_put(before.left, me, spent))
                yield _label(f"{name}: {verb}"), self._does(after, me, verb)
        if side.state not in (S.DISCONNECTED_OUTBOUND, S.CLOSED):
            yield _label(f"{name}: end"), self._does(before, me, Verb.END)
        if side.queue and self._receives:
            yield _label(f"{name} receives"), self._received(before, me)

    def _faults(self, talk: Talk, me: int) -> Iterator[tuple[Label, Talk]]:
        name, side = "IT"[me], talk.sides[me]
        if talk.restores[me]:
            backup = talk.backup[me]
            if backup is None:
                yield _label(f"a backup of {name} is taken"), talk._replace(backup=_put(talk.backup, me, side))
            elif backup != side:
                gone_back = talk._replace(
                    restores=_put(talk.restores, me, talk.restores[me] - 1), backup=_put(talk.backup, me, None)
                )
                yield _label(f"{name} is restored"), _with(gone_back, me, backup)
        if talk.copies and me == 0:
            for record in side.lane.records:
                yield _label("the network copies a number"), talk._replace(copies=talk.copies - 1, copy=(1, record))
        if talk.copy is not None and talk.copy[0] == me:
            late = side._replace(inbox=(*side.inbox, talk.copy[1]))
            yield _label("the copy is delivered"), _with(talk, me, late)._replace(copy=None)

    # ---- streams

    def _contact(self, talk: Talk, me: int, stream: str) -> Iterator[tuple[Label, Talk]]:
        """A box asks with what it has; the other one takes one record, or says where it is."""
        you = 1 - me
        out: Out = getattr(talk.sides[me], stream)
        there: In = getattr(talk.sides[you], f"{stream}_in")
        if there.epoch != out.epoch:
            there = In(out.epoch)
        known = len(there.records)
        whole = out.records[:known] == there.records
        if not whole or (known < out.acked and not self._keeps):
            yield _label(f"the {stream} of {'IT'[me]} can't be made whole"), self._ends(talk, me, stream)
        elif known < len(out.records):
            record = out.records[known]
            taken = talk.sides[you]._replace(**{f"{stream}_in": In(out.epoch, out.records[: known + 1])})
            taken = taken._replace(inbox=(*taken.inbox, record))
            after = _with(talk, you, taken)
            yield (
                _label(f"{record.kind} of {'IT'[me]} comes"),
                after if self._restores else self._acked(after, me, stream),
            )
        elif out.acked < known:
            yield _label(f"the {stream} of {'IT'[me]} is acknowledged"), self._acked(talk, me, stream)

    def _acked(self, talk: Talk, me: int, stream: str) -> Talk:
        out: Out = getattr(talk.sides[me], stream)
        known = len(getattr(talk.sides[1 - me], f"{stream}_in").records)
        if known == len(out.records) and talk.backup == (
            None,
            None,
        ):  # Nothing can bring back what both have forgotten here.
            after = _with(talk, 1 - me, talk.sides[1 - me]._replace(**{f"{stream}_in": In(out.epoch)}))
            return _with(after, me, after.sides[me]._replace(**{stream: Out(out.epoch)}))
        return _with(talk, me, talk.sides[me]._replace(**{stream: out._replace(acked=known)}))

    def _ends(self, talk: Talk, me: int, stream: str) -> Talk:
        """A stream is broken: what isn't acknowledged goes on in a new one, and both boxes look at the dialog."""
        out: Out = getattr(talk.sides[me], stream)
        fresh = Out(talk.epochs + 1, out.records[out.acked :])
        after = _with(talk, me, talk.sides[me]._replace(**{stream: fresh}))
        after = _with(after, 1 - me, after.sides[1 - me]._replace(**{f"{stream}_in": In(fresh.epoch)}))
        after = after._replace(epochs=fresh.epoch)
        if self._broken == "no checks":
            return after
        # A note, since neither box has the lock of its side now.
        noted = (side._replace(inbox=(*side.inbox, Record("restored"))) for side in after.sides)
        return after._replace(sides=tuple(noted))

    def _checks(self, talk: Talk, me: int) -> Talk:
        """Say once more what the other side has to know: where the numbers are, or that this side is over."""
        side = talk.sides[me]
        if side.state in (S.ERROR, S.CLOSED):
            return self._says(talk, me, "gone", again=True)
        if side.state is None or side.state == S.STARTED_OUTBOUND:
            return talk
        if side.state == S.DISCONNECTED_OUTBOUND and side.failed:
            return self._says(talk, me, "error", again=True)
        check = Record("check", len(side.sent), 0, side.sent, side.got)
        return _with(talk, me, side._replace(waits=(*side.waits, check)))

    def _may_forget(self, side: Side) -> bool:
        """The half hour is over at any time."""
        all_known = not side.waits and all(out.acked == len(out.records) for out in (side.lane, side.control))
        return side.state == S.CLOSED and not side.inbox and (all_known or self._broken == "a side is forgotten early")

    # ---- what a side does and says

    def _says(self, talk: Talk, me: int, kind: str, *, again: bool = False) -> Talk:
        """Say something outside the numbers; once, while it isn't acknowledged, unless a restore may have undone what came of it."""
        side = talk.sides[me]
        if kind == "gone" and self._broken == "a closed side is silent" and side.state is not None:
            return talk
        if self._broken == "an error waits behind its numbers" and kind == "error":
            number = Record("error", len(side.sent), 0, side.sent)
            return _with(talk, me, side._replace(waits=(*side.waits, number)))
        if not again and any(record.kind == kind for record in side.control.records[side.control.acked :]):
            return talk
        return _with(talk, me, side._replace(control=_appended(side.control, Record(kind))))

    def _does(self, talk: Talk, me: int, verb: Verb) -> Talk:
        """A verb of the application, or the end of the lifetime by this box's clock."""
        side = talk.sides[me]
        assert side.state is not None
        rule = RULES[verb, side.state]
        if side.inbox:
            return talk._replace(wrong=f"{verb} didn't know what had come before it")
        if verb == Verb.SEND:
            content = 10 * len(side.sent) + talk.restores[me] + 5 * me
            number = Record("number", len(side.sent), content, side.sent)
            sent = side._replace(state=rule.becomes, sent=(*side.sent, content), waits=(*side.waits, number))
            return _with(talk, me, sent)
        says = self._last_word(side.state, verb, rule)
        if says == "end":
            last = Record("end", len(side.sent), -1, side.sent)
            side = side._replace(sent=(*side.sent, -1), waits=(*side.waits, last))
        elif rule.becomes != side.state:
            side = side._replace(waits=())
        failed = side.failed or (verb == Verb.END_WITH_ERROR and says == "error")
        after = _with(talk, me, _becomes(side, rule)._replace(failed=failed))
        return self._says(after, me, says) if says in ("error", "gone") else after

    def _last_word(self, state: DialogState, verb: Verb, rule: Rule) -> str | None:
        """What a side says when it ends. A side that closes without a word says `gone`; one that has sent nothing has nobody to say it to."""
        if state in (S.STARTED_OUTBOUND, rule.becomes):
            return None
        if state == S.DISCONNECTED_INBOUND and self._broken == "the end of the second isn't told":
            return None
        if state == S.DISCONNECTED_OUTBOUND and self._broken == "an end is dropped without a word":
            return None
        if rule.tells == END_DIALOG:
            return "end"
        return "error" if rule.tells == ERROR or verb == Verb.LIFETIME_ENDS else "gone"

    def _received(self, talk: Talk, me: int) -> Talk:
        side = talk.sides[me]
        (kind, number), rest = side.queue[0], side.queue[1:]
        if side.has_end and kind == "number":
            return talk._replace(wrong="a number is handed out after the end")
        if side.through is not None and kind == "number" and number >= side.through:
            return talk._replace(wrong="a number is handed out that came after the Error")
        if kind == "number" and number != side.handed:
            return talk._replace(wrong=f"number {number} is handed out, and {side.handed} is next")
        assert side.state is not None
        return _with(
            talk, me,
            side._replace(
                state=RULES[Verb.RECEIVE, side.state].becomes, queue=rest, handed=side.handed + (kind == "number"),
                has_end=side.has_end or kind == END_DIALOG,
            ),
        )  # fmt: skip

    def _obeyed(self, talk: Talk, me: int) -> Talk:
        while (side := talk.sides[me]).inbox:
            record = side.inbox[0]
            talk = self._obey(_with(talk, me, side._replace(inbox=side.inbox[1:])), me, record)
        return talk

    def _obey(self, talk: Talk, me: int, record: Record) -> Talk:
        """One record, under the lock of its side."""
        side = talk.sides[me]
        outside = record.kind in ("error", "gone")
        if record.kind == "restored":
            return self._checks(talk, me)
        if side.state is None and me == 1 and not side.over and record.kind == "number" and not record.number:
            side = side._replace(state=S.STARTED_INBOUND)
        if side.state is None:
            # One that hasn't begun yet is kept as one that is over.
            is_kept = me == 1 and self._broken not in ("an early record is dropped", "no numbers that are over")
            after = _with(talk, me, side._replace(over=side.over or is_kept))
            is_silent = record.kind == "gone" or self._broken == "a forgotten side is silent"
            is_silent |= me == 1 and not side.over and self._broken == "an early record is dropped"
            return after if is_silent else self._says(after, me, "gone")
        talk = _with(talk, me, side)
        if not outside:
            return self._numbered(talk, me, record)
        if record.number > len(side.got):
            return talk  # As a number it waits for those before it, which were dropped.
        return self._happens(talk, me, Verb.ERROR_COMES if record.kind == "error" else Verb.GONE_COMES)

    def _numbered(self, talk: Talk, me: int, record: Record) -> Talk:
        side = talk.sides[me]
        is_over = side.state in (S.ERROR, S.CLOSED)
        if is_over and not (self._broken == "a late number is handed out" and side.state == S.ERROR):
            return self._says(talk, me, "gone") if record.kind == "check" else talk
        ahead = len(side.got) - record.number
        if self._broken == "no chains":
            fits = ahead >= 0
        elif record.kind == "check":
            is_ahead = len(record.got) > len(side.sent) or (
                len(record.got) == len(side.sent) and record.got != side.sent
            )
            fits = ahead == 0 and record.chain == side.got and not is_ahead
        elif ahead in (0, 1):
            fits = (*record.chain, record.content)[: len(side.got)] == side.got
        else:
            fits = ahead > 1 and record.kind != "end"  # Nothing comes after an end.
        if not fits:
            return self._says(self._happens(talk, me, Verb.GONE_COMES), me, "gone")
        if ahead or record.kind == "check":
            return talk
        side = side._replace(got=(*side.got, record.content))
        talk = _with(talk, me, side)
        if record.kind == "end":
            return self._happens(talk, me, Verb.END_COMES)
        if side.state in (S.STARTED_INBOUND, S.CONVERSING, S.ERROR):
            side = side._replace(queue=(*side.queue, ("number", record.number)) if self._receives else ())
        return _with(talk, me, side)

    def _happens(self, talk: Talk, me: int, verb: Verb) -> Talk:
        """What comes from the other side; what waits towards a side that is over is dropped."""
        side = talk.sides[me]
        assert side.state is not None
        rule = RULES[verb, side.state]
        side = _becomes(side, rule)
        if rule.tells == END_DIALOG:
            # What hasn't left never will: its numbers are free for the end of this side.
            left = side.sent[: len(side.sent) - sum(record.kind != "check" for record in side.waits)]
            queue = (*side.queue, (END_DIALOG, 0)) if self._receives else ()
            side = side._replace(queue=queue, waits=(), sent=left)
        elif rule.tells == ERROR:
            queue = ((ERROR, 0), *side.queue) if self._receives else ()
            side = side._replace(queue=queue, waits=(), through=len(side.got) if self._receives else None)
        return _with(talk, me, side)

    # ---- the laws

    def fault(self, talk: Talk) -> str | None:
        """The law that the state breaks."""
        if talk.wrong:
            return talk.wrong
        if not self.quiet(talk):
            return None
        one, two = talk.sides
        open_ = (S.STARTED_INBOUND, S.CONVERSING, S.DISCONNECTED_INBOUND, S.DISCONNECTED_OUTBOUND)
        if one.state in open_ and two.state in open_:
            for sender, receiver in (one, two), (two, one):
                # Who has ended takes no message; the other one's end closes it, whatever its number.
                if receiver.state != S.DISCONNECTED_OUTBOUND and sender.sent != receiver.got:
                    return f"{sender.sent} was sent and {receiver.got} came, and nobody is told"
        for me in (0, 1):
            here, there = talk.sides[me].state, talk.sides[1 - me].state
            if here == S.DISCONNECTED_OUTBOUND and there in (S.CLOSED, None):
                return f"{'IT'[me]} waits for a side that is over"
            if here in (S.STARTED_INBOUND, S.CONVERSING) and there in (
                S.DISCONNECTED_OUTBOUND,
                S.ERROR,
                S.CLOSED,
                None,
            ):
                return f"{'IT'[me]} talks to a side that is over, and isn't told"
        return None

    def quiet(self, talk: Talk) -> bool:
        """Nothing is under way."""
        if talk.copy is not None or any(side.inbox or side.waits for side in talk.sides):
            return False
        return not any(True for me in (0, 1) for stream in ("lane", "control") for _ in self._contact(talk, me, stream))

    def done(self, talk: Talk) -> bool:
        """Both sides are forgotten, and nothing is left of them."""
        return self.quiet(talk) and all(side.state is None for side in talk.sides)


def _becomes(side: Side, rule: Rule) -> Side:
    if rule.becomes in (S.DISCONNECTED_OUTBOUND, S.CLOSED):
        side = side._replace(queue=())
    return side._replace(state=rule.becomes)


def _appended(out: Out, record: Record) -> Out:
    return out._replace(records=(*out.records, record))


def _with(talk: Talk, me: int, side: Side) -> Talk:
    return talk._replace(sides=_put(talk.sides, me, side))


def _put(several: tuple[Any, ...], place: int, one: Any) -> Any:
    return (*several[:place], one, *several[place + 1 :])


def _label(text: str) -> Label:
    return (text.replace("{", "{{") + "{}",), ""
