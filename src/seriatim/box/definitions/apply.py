"""Apply a box file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from seriatim.box.definitions.change import Change, Definition, Kind
from seriatim.box.definitions.define import define
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.drop import locations
from seriatim.box.definitions.known import read_definitions
from seriatim.box.definitions.links import declared
from seriatim.box.definitions.schedules import scheduled
from seriatim.box.postgres.statements import Statements
from seriatim.pipeline.declared.contract import DEFAULT
from seriatim.pipeline.files.box_file import BoxFile, load


def apply(statements: Statements, file: str | Path, *, prune: bool) -> list[Change]:
    statements.do("lock_definitions")
    before, places = read_definitions(statements), locations(statements)
    present = BoxFile(
        tuple(one for one, _ in places),
        tuple(before.types.values()),
        tuple(one.declared for one in before.queues.values() if one.problem is None),
        tuple(one.declared for one in before.subscriptions.values()),
        tuple(before.contracts.values()),
        tuple(before.services.values()),
        () if before.settings is None else (before.settings,),
    )
    said = load(file, present=present)
    every: tuple[Definition, ...] = (
        *said.locations, *said.types, *said.queues, *said.subscriptions, *said.contracts, *said.services,
        *said.settings, *said.schedules, *said.links,
    )  # fmt: skip
    unused = [one.name for one, used in places if not used]
    there = scheduled(statements)
    return define(statements, every, _missing(said, before, unused, there, declared(statements)) if prune else ())


def _missing(
    said: BoxFile, before: Definitions, unused: Iterable[str], schedules: Iterable[str], links: Iterable[str]
) -> list[tuple[Kind, str]]:
    broken = {kind: {name for its_kind, name in before.unreadable if its_kind == kind} for kind in map(str, Kind)}
    pairs = (
        (Kind.SUBSCRIPTION, before.subscriptions.keys() | broken[Kind.SUBSCRIPTION], said.subscriptions),
        (Kind.SERVICE, before.services.keys() | broken[Kind.SERVICE], said.services),
        (Kind.CONTRACT, (before.contracts.keys() | broken[Kind.CONTRACT]) - {DEFAULT}, said.contracts),
        (Kind.QUEUE, before.queues.keys() - {one.queue for one in said.services if one.queue is not None}, said.queues),
        (Kind.TYPE, before.types.keys() | broken[Kind.TYPE], said.types),
        (Kind.LOCATION, unused, said.locations),
        (Kind.SETTINGS, () if before.settings is None else (before.settings.name,), said.settings),
        (Kind.SCHEDULE, schedules, said.schedules),
        (Kind.LINK, links, said.links),
    )
    return [
        (kind, name) for kind, there, declared in pairs for name in there if name not in {one.name for one in declared}
    ]
