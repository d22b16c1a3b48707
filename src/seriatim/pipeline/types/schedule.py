"""The schedule: a message that is published again and again, at times that cron text names."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from seriatim.errors import Argument, UsageError, entry_of, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Choice, Declaration, Kind, Text, Wrong, takes
from seriatim.pipeline.declared.kinds import Name, OwnName
from seriatim.pipeline.types.message import Message
from seriatim.pipeline.types.origin import ORIGIN
from seriatim.pipeline.types.sent_by import LINK

#: What becomes of due times that passed while nobody published.
CatchUp = Literal["one", "none", "all"]
CATCH_UP: tuple[str, ...] = get_args(CatchUp)
#: The largest body; a reader of the schedules reads all of them.
MOST_BODY_BYTES = 1_000_000
_FIELDS = 5
_LONGEST_CRON = 1_000
#: The last due time is looked for within these, one after another: so few of many are looked at.
_SPANS = tuple(timedelta(**one) for one in ({"hours": 1}, {"days": 1}, {"days": 32}, {"days": 400}, {"days": 20_000}))
#: A property that the schedule sets itself, or the box does.
_NOT_GIVEN = frozenset({"type", "message_id", "ticket", "epoch", "received_at", *ORIGIN, *LINK})


@dataclass(frozen=True)
class _Body(Kind):
    """The content of a message; in JSON in Base64."""

    def check(self, value: Any) -> Any:
        if not isinstance(value, str | bytes):
            raise Wrong("text or bytes")
        try:
            return value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError:
            raise Wrong("text without halves of surrogate pairs, or bytes") from None

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        return {key: base64.b64encode(value).decode("ascii")}

    def restored(self, key: str, stored: Mapping[str, Any]) -> bytes:
        return base64.b64decode(stored[key], validate=True)


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Schedule(Declaration):
    """A message that the box publishes at each time that `cron` names, once in the whole box.

    ``seriatim serve`` publishes it, and so do workers and `MessageBox.tick` once a minute.

    Args:
        name: its name.
        cron: five fields: minute, hour, day of the month, month, day of the week, as Debian's cron reads them.
        type: the type of the message.
        timezone: the time zone of `cron`, by its IANA name. An hour that the clock skips or repeats counts once.
        body: the content of the message, bytes or text; at most 1,000,000 bytes of UTF-8.
        context: the properties of the message: texts, numbers, booleans or None. ``to`` names a queue, ``unique_key`` keeps a
            second message from waiting beside the first.
        content_type: the media type of the body.
        due_property: the name of a property that gets the due time; None: the message's id alone tells it.
        catch_up: what is published for due times that have passed, because nobody was there: ``"one"`` message for the last of
            them, ``"all"``, or ``"none"``.

    Raises:
        UsageError: a value is invalid.
    """

    name: str = takes(OwnName("a schedule's name"))
    cron: str = takes(Kind())
    type: str = takes(Text())
    _: KW_ONLY
    timezone: str = takes(Kind(), "UTC")
    body: bytes = takes(_Body(), b"", repr=False)
    context: Mapping[str, Any] = takes(Kind(), factory=dict, hash=False)
    content_type: str | None = takes(Text(), None)
    due_property: str | None = takes(Name("a property"), None)
    catch_up: CatchUp = takes(Choice(CATCH_UP), "one")

    def __post_init__(self) -> None:
        self._check_fields()
        self._check_times()
        self._check_message()

    def message(self, due: datetime) -> Message:
        """The message for a due time; two for one time have one id."""
        moment = due.astimezone(UTC)
        context = dict(self.context)
        if self.due_property is not None:
            context[self.due_property] = moment
        return Message(
            type=self.type,
            body=self.body,
            context=context,
            message_id=f"schedule {self.name} {moment:%Y-%m-%dT%H:%M:%SZ}",
            content_type=self.content_type,
        )

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The due times after a moment, in UTC and ascending. They end where there is none for 50 years."""
        last = moment
        for due in CronSim(self.cron, moment.astimezone(_zone(self.timezone))):
            # An hour that the clock repeats must not give a time again that is over.
            if (found := due.astimezone(UTC)) > last:
                last = found
                yield found

    def last_due(self, since: datetime, until: datetime) -> datetime | None:
        """The last due time after `since`, up to `until`; None: there is none."""
        for span in _SPANS:
            begin = max(since, until - span)
            found = list(takewhile(lambda due: due <= until, self.after(begin)))
            if found or begin == since:
                return found[-1] if found else None
        return None

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        return UsageError(f"schedule {self.name!r}: {what}", remedy=remedy, argument=argument)

    def _check_times(self) -> None:
        example = 'five fields, such as "0 6 * * MON-FRI": minute, hour, day, month, day of the week'
        cron = self.cron
        if not isinstance(cron, str) or len(cron) > _LONGEST_CRON or len(cron.split()) != _FIELDS:
            raise self._wrong("cron", f"{shown(cron, 80)} is not cron text", example)
        try:
            zone = _zone(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
            raise self._wrong(
                "timezone",
                f"{shown(self.timezone, 80)} is not a time zone here",
                'an IANA name, such as "Europe/Berlin"; where the system has none, pip install tzdata',
            ) from None
        try:
            next(CronSim(cron, datetime(2024, 1, 1, tzinfo=zone)))
        except CronSimError as error:
            raise self._wrong("cron", f"cron text {cron!r}: {str(error).lower()}", example) from None
        except StopIteration:
            raise self._wrong("cron", f"cron text {cron!r} names no time", example) from None

    def _check_message(self) -> None:
        if not isinstance(self.context, Mapping):
            raise self._wrong(
                "context", f"context can't be {shown(self.context, 80)}", "a dictionary: properties by their names"
            )
        object.__setattr__(self, "context", dict(self.context))
        for name, value in self.context.items():
            if not isinstance(name, str) or name in _NOT_GIVEN or name == self.due_property:
                raise self._wrong(
                    entry_of("context", name), f"the property {shown(name, 80)} can't be given", "leave it out"
                )
            if value is not None and not isinstance(value, str | int | float):
                raise self._wrong(
                    entry_of("context", name),
                    f"the property {name!r} can't be {shown(value, 80)}",
                    "a text, a number, a boolean or None; text is read as the type's timestamp or decimal",
                )
        try:
            self.message(datetime(2024, 1, 1, tzinfo=UTC))
        except UsageError as error:
            raise self._wrong(error.arguments, error.what, error.remedy) from None
        if len(self.body) > MOST_BODY_BYTES:
            raise self._wrong("body", f"the body has {len(self.body):,} bytes", f"at most {MOST_BODY_BYTES:,}")


def _zone(name: str) -> tzinfo:
    """A time zone by its name; UTC also where the system has no zones."""
    return UTC if name == "UTC" else ZoneInfo(name)
