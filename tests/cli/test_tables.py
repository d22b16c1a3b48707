"""All commands print what they declare: no name in JSON and no heading comes from elsewhere."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from uuid import uuid4

import click
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.workers.heartbeat import Process, Report, beat
from seriatim.cli.main import main
from seriatim.cli.shown.table import JsonOption, Table
from seriatim.operations import groups
from tests.box.console import BY, define, failing, publish
from tests.databases import box_with

#: Commands that read a box and need no argument; `unrouted` and `set-aside` print a line a message.
LISTS = (
    *(
        "groups --all",
        "groups --by error",
        "faults --by error",
        "messages list --by error",
        "dead-letters list --by error",
    ),
    *("groups", "queues", "messages list", "dead-letters list", "dialogs list", "instances list", "faults"),
    *("subscriptions", "services", "contracts", "types", "box grants", "workers"),
)
OBJECTS = (
    *(
        "box status",
        "box purge --dry-run",
        "box tick",
        "group suspend --all --dry-run",
        "group show c1",
        "queue set shop --workers 2 --rate 30/m",
        "queue show shop",
    ),
    *("messages delete --all --dry-run", "messages requeue --all --dry-run", "dead-letters delete --all --dry-run"),
    *("find c1", "faults 1", "instances show 1", "messages show {message}", "dialogs show {handle}"),
)


def commands(group: click.Group = main, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def tables_of(command: click.Command) -> tuple[Table, ...]:
    return tuple(table for one in command.params if isinstance(one, JsonOption) for table in one.tables)


def every(table: Table) -> Iterator[Table]:
    yield table
    for column in table.columns:
        for one in column.tables:
            yield from every(one)


DECLARED = {name: tables_of(command) for name, command in commands()}
#: Each once: a table that a command prints is the declared one, which may be a part of another.
TABLES = list(
    {(one.title, one.columns): one for found in DECLARED.values() for table in found for one in every(table)}.values()
)


def test_every_command_with_json_names_its_tables():
    with_json = {name for name, command in commands() for one in command.params if "--json" in one.opts}
    assert len(with_json) > 40
    assert {name for name, tables in DECLARED.items() if tables} == with_json


def test_a_title_stands_for_one_table():
    assert len({table.title for table in TABLES}) == len(TABLES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_a_column_stands_once_and_every_field_of_a_row_is_one(table):
    names = [column.name for column in table.columns if column.name is not None]
    assert len(set(names)) == len(names)
    if not table.row:
        return
    kind = table.row_class
    assert table.row in (kind, f"{kind.__module__}:{kind.__qualname__}")
    fields = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
    assert set(table.lacks) <= set(fields) - set(names)
    assert set(names) | set(table.lacks) >= set(fields)


def prepared(box):
    """A row in each list."""
    define(box)
    publish(box, 1, 2, 4, 1, group="c1")
    failing(box, group="c1", done=1)
    box.define(
        sq.Queue("work", sq.Fifo(), group="customer"),
        sq.Subscription("starts", "type = 'start'", "work", starts="orders.work:handle", correlate=["customer"]),
        sq.MessageType("start", properties={"customer": "string"}),
        sq.Contract("Talk", {"Say": "initiator"}),
        sq.Service("Asks", queue="asks"),
        sq.Service("Answers", queue="answers", contracts=["Talk"]),
    )
    publish(box, 1, group="c2")
    failing(box, group="c2")
    groups.skip_message(box, "shop", "c2", **BY)
    box.publish(sq.Message(type="start", context={"customer": "c3"}))
    with box.session() as tx:
        for _ in tx.receive("work"):
            tx.instance.state["n"] = 1
        tx.send(tx.begin_dialog("Asks", "Answers", contract="Talk"), "Say", b"x")
        tx.publish(sq.Message(type="nobody's"))
    with box.access.transaction() as transaction:
        entry_id = transaction.connection.execute(f"SELECT max(entry_id) FROM {box.schema}.entries").fetchone()[0]
        process = Process(uuid4(), "here:1", "here", 1)
        beat(transaction, process, [Report("shop", "transactional", 8, 8, 50, None, [("c1", entry_id, 2.0)])])


box = box_with(prepared, scope="module")


def call(box, words, *more):
    result = CliRunner().invoke(main, [*words.split(), "--dsn", box.dsn, "--schema", box.schema, *more])
    assert result.exit_code == 0, result.output
    return result.stdout


def fits(found: dict, table: Table) -> bool:
    """Whether an object has the names of a table, in that order, and so have the objects in it."""
    columns = [one for one in table.columns if one.name is not None]
    if list(found) != [one.name for one in columns if not (one.optional and one.name not in found)]:
        return False
    return all(
        any(fits(inner, of) for of in one.tables)
        for one in columns
        if one.tables
        for value in [found.get(one.name)]
        for inner in (value if isinstance(value, list) else [] if value is None else [value])
    )


@pytest.mark.parametrize("words", LISTS)
def test_a_list_has_the_names_and_headings_that_are_declared(box, words):
    tables = DECLARED[words.partition(" --")[0]]
    found = json.loads(call(box, words, "--json"))
    assert found or words == "box grants"
    assert all(any(fits(one, table) for table in tables) for one in found)
    if any(table.headings for table in tables):
        (heading, *_) = call(box, words).splitlines()
        assert any(
            heading.split() == " ".join(some.headings).split()
            for table in tables
            for some in (table, table.without(*(str(one.title) for one in table.columns if one.optional)))
        )


@pytest.mark.parametrize("words", OBJECTS)
def test_an_object_has_the_names_that_are_declared(box, words):
    handle = json.loads(call(box, "dialogs list", "--json"))[0]["handle"]
    message = json.loads(call(box, "messages list", "--json"))[0]["message_id"]
    name = " ".join(words.split()[:2]) if " ".join(words.split()[:2]) in DECLARED else words.split()[0]
    found = json.loads(call(box, words.format(handle=handle, message=message), "--json"))
    assert any(fits(found, table) for table in DECLARED[name])


def test_lines_of_json_have_the_names_that_are_declared(box):
    (line,) = call(box, "unrouted", "--json").splitlines()
    assert any(fits(json.loads(line), table) for table in DECLARED["unrouted"])
