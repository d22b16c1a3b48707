"""``claims: journal`` and ``journal`` of a pipeline file: two runs, one in each region, of which one delivers at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.policies.copies import REGIONS
from seriatim.pipeline.declared.pipeline import BOX, DROP, TABLE, Destination, JournalPlace, Receive
from seriatim.pipeline.files.paths import PORT_FORMATS
from seriatim.pipeline.text.section import Section

#: A lease is renewed three times in its length, so it can't be shorter than a second; and a day is long.
_SHORTEST_LEASE_S, LONGEST_LEASE_S = 1, 86_400
_LEASE_S = 10.0


def read_claims(
    section: Section, received: Sequence[Receive], routed: Sequence[Destination], *, whole: bool
) -> JournalPlace | None:
    """Read ``claims`` and ``journal``; reports what doesn't go together with them."""
    place, claims = _place(section), section.choice("claims", ("journal",))
    if not section.has("claims"):
        if section.has("journal"):
            section.fault("journal", "a journal is for claims: journal", "add claims: journal, or leave it out")
        for port, one in _destinations(section, routed):
            if one.deliver.format == TABLE:
                what = "a table of the journal's database needs claims: journal"
                port.fault("deliver", what, "add claims and journal; or format: jdbc, which is Spark's, at least once")
        return None
    if claims is None:
        return None
    if not section.has("journal"):
        section.fault("claims", "claims: journal needs a journal", "add journal: {dsn: ${SERIATIM_JOURNAL}, region: a}")
    if whole and not any(entry.region is not None for entry in received):
        what = "claims: journal is for a pipeline that receives from two regions, and runs in both"
        section.fault("claims", what, "say region: a and b under receive, or leave out claims and journal")
    for port, one in _destinations(section, routed):
        for key, what, remedy in _misfits(one):
            port.fault(key, f"destination {one.queue.name!r}: {what}", remedy)
    return place


def _place(section: Section) -> JournalPlace | None:
    inner = section.section("journal")
    if inner is None:
        return None
    dsn, schema = inner.text("dsn", required=True), inner.text("schema")
    region, lease_s = inner.choice("region", REGIONS, required=True), inner.duration_s("lease")
    inner.finish()
    if lease_s is not None and not _SHORTEST_LEASE_S <= lease_s <= LONGEST_LEASE_S:
        what = f"{inner.full('lease')} must be from {_SHORTEST_LEASE_S} s to a day"
        inner.fault("lease", what, "such as 10s: so long the other region waits for one that says nothing any more")
        return None
    if dsn is None or region is None:
        return None
    return JournalPlace(dsn, region, schema, _LEASE_S if lease_s is None else lease_s)


def _destinations(section: Section, routed: Sequence[Destination]) -> Iterator[tuple[Section, Destination]]:
    """The destinations that deliver, each with its place in the file."""
    by_name = {one.queue.name: one for one in routed if one.deliver.format != DROP}
    if not by_name or section.written("route"):
        return
    for place in section.sections("route"):
        one = by_name.pop(str(place.plain("to")), None)
        if one is not None:
            yield place, one


def _misfits(one: Destination) -> Iterator[tuple[str, str, str]]:
    """What of a destination doesn't go with claims: the key, why, and what to do."""
    queue, port = one.queue, one.deliver
    if not isinstance(queue.policy, Standard):
        what = f"claims: journal is by the numbers of messages, and {queue.policy.name} has none that both regions know"
        yield "resequence", what, "number the messages and take policy: standard"
        return
    if queue.numbered_by == "ticket":
        what = "each of two runs stamps tickets of its own, so they are no numbers that both know"
        yield "resequence", what, "promote the number that the sender gave, and name it: sequence: …"
    if queue.policy.late != "set_aside":
        what = "a late message has a number through which all is delivered already, so it would be left out"
        yield "resequence", what, "late: set_aside"
    if queue.group.expire_to == "nothing":
        what = "groups that are forgotten begin their numbers again, and these are delivered already"
        yield "resequence", what, "leave out expire_to"
    if port.format in PORT_FORMATS:
        what = "two runs can't write one folder: their batches are cut differently"
        yield "deliver", what, "format: table in the journal's database, a queue of a message box, or another sink"
    if port.format == BOX and "service" in port.options:
        what = "what is sent in a dialog is sent once, and the other run can't know it"
        yield "deliver", what, "deliver to a queue, whose handler sends"
