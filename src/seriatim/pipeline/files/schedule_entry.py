"""A schedule in the file of a message box."""

from __future__ import annotations

from typing import Any, cast

from seriatim.errors import UsageError
from seriatim.pipeline.text.section import Section
from seriatim.pipeline.types.schedule import CATCH_UP, Schedule

__all__ = ["schedule_entry"]


def schedule_entry(entry: Section, name: str) -> Schedule | None:
    """The schedule that an entry of the file declares; None if it is wrong, which is reported."""
    cron, kind = entry.text("cron", required=True), entry.text("type", required=True)
    timezone, body, catch_up = entry.text("timezone"), entry.text("body"), entry.choice("catch_up", CATCH_UP)
    content_type, due_property = entry.text("content_type"), entry.text("due_property")
    given = entry.section("context")
    context = {key: given.plain(key) for key in given.names()} if given else {}
    if given:
        given.finish()
    entry.finish()
    optional = {
        "timezone": timezone, "body": body, "catch_up": catch_up, "content_type": content_type,
        "due_property": due_property, "context": given,
    }  # fmt: skip
    if cron is None or kind is None or any(entry.has(key) and one is None for key, one in optional.items()):
        return None
    try:
        return Schedule(
            name,
            cron,
            kind,
            timezone=timezone or "UTC",
            body=(body or "").encode(),
            context=context,
            content_type=content_type,
            due_property=due_property,
            catch_up=cast("Any", catch_up or "one"),
        )
    except UsageError as error:
        entry.refuse(error)
        return None
