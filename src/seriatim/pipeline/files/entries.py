"""The entries of a box file that say more than the fields of a declaration."""

from typing import Any, cast

from seriatim.errors import UsageError
from seriatim.pipeline.declared.contract import SENDERS, Contract
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.files.declared import made, read_declared, read_fields
from seriatim.pipeline.files.policy import read_policy
from seriatim.pipeline.text.section import Section
from seriatim.pipeline.types.schedule import Schedule

#: Where a link has ``${NAME}`` for the process that transmits.
_PLACES = ("dsn", "url", "certificate", "key", "authority")


def queue_entry(entry: Section, name: str) -> Queue | None:
    """A queue, with the parameters of its policy beside it; None if it is wrong, which is reported."""
    values = read_fields(entry, Queue, {"name": name, "policy": read_policy(entry)[1]})
    return None if values["policy"] is None else made(entry, Queue, values)


def link_entry(entry: Section, name: str) -> Link | None:
    """A link; None if it is wrong, which is reported."""
    places = {key: entry.unreplaced(key, "the process that transmits") for key in _PLACES if entry.has(key)}
    return read_declared(entry, Link, {"name": name, **places})


def schedule_entry(entry: Section, name: str) -> Schedule | None:
    """A schedule; None if it is wrong, which is reported."""
    given: dict[str, Any] = {"name": name, "cron": entry.text("cron", required=True)}
    if entry.has("context"):
        section = entry.section("context")
        given["context"] = None if section is None else {key: section.plain(key) for key in section.names()}
    return read_declared(entry, Schedule, given)


def contract_entry(entry: Section, name: str) -> Contract | None:
    """A contract, with lines ``TYPE: SENDER``; None if it is wrong, which is reported."""
    types = {kind: entry.choice(kind, SENDERS, required=True) for kind in entry.names()}
    entry.finish()
    if None in types.values():
        return None
    try:
        return Contract(name, cast("Any", types))
    except UsageError as error:
        # The entry is the argument `types`.
        at = next((one.removeprefix("types.") for one in error.arguments if one.startswith("types.")), None)
        entry.fault(at, error.what, error.remedy)
        return None
