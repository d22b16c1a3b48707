"""A session that takes part in an application's transaction, on a connection that is set up in the application's way."""

from __future__ import annotations

import gc
import warnings

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

import seriatim as sq
from seriatim.operations import invariants


class OwnCursor(psycopg.ClientCursor):
    """As Django has one."""


@pytest.fixture(params=["text of JSON", "client cursor", "rows as dictionaries", "moments as text", "all of it"])
def connection(box, request):
    options = {}
    if request.param in ("client cursor", "all of it"):
        options["cursor_factory"] = OwnCursor
    if request.param in ("rows as dictionaries", "all of it"):
        options["row_factory"] = dict_row
    with psycopg.connect(box.dsn, **options) as opened:
        if request.param in ("text of JSON", "all of it"):
            for name in ("json", "jsonb"):
                opened.adapters.register_loader(name, TextLoader)
        if request.param in ("moments as text", "all of it"):
            opened.adapters.register_loader("timestamptz", TextLoader)
        yield opened


def order(version):
    return sq.Message(type="order", context={"customer": "c", "version": version, "share": 0.5})


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Standard(), sq.Unordered()])
def test_a_connection_in_the_applications_way(box, connection, policy):
    keyed = not isinstance(policy, sq.Unordered)
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "share": "double"}),
        sq.Queue(
            "q", policy=policy, group="customer" if keyed else None,
            sequence="version" if isinstance(policy, sq.Standard) else None, keep="everything",
        ),
        sq.Subscription("all", where="type = 'order'", to="q"),
    )  # fmt: skip
    with sq.MessageBox.open(box.dsn, schema=box.schema) as fresh:  # which has read no definitions yet
        with fresh.session(connection=connection) as tx:
            assert tx.connection is connection
            tx.publish([order(1), order(2)])
            assert list(tx.dispense("till", 2)) == [("till", 0, 1), ("till", 0, 2)]
        connection.commit()
        with fresh.session(connection=connection) as tx:
            first = tx.receive("q")
            assert [(one.context["share"], one.received_at.tzinfo is None) for one in first] == [(0.5, False)]
            assert len(tx.receive("q", limit=5)) == 1  # and it is put back
        connection.rollback()
        with fresh.session(connection=connection) as tx:
            assert [one.context["version"] for one in tx.receive("q")] == [1]
        connection.commit()
    assert [one.message.context["version"] for one in box.peek("q")] == [2]
    assert invariants.broken(box) == []


@pytest.mark.dear
def test_the_applications_connection_is_told_of_by_nobody(box, connection):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with box.session(connection=connection) as tx:
            tx.dispense("till")
        gc.collect()
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
