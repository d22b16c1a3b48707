"""A password of a DSN stays in the DSN: it is looked for in all that a box writes, says, logs and shows."""

from __future__ import annotations

import logging
import traceback

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import messages, queues, retention, subscriptions
from seriatim.operations.box_status import box_status
from seriatim.operations.grants import grants

#: What has to be quoted in a URI, too, and how it stands there.
SECRET, WRITTEN = "s3cret-wört&/x", "s3cret-w%C3%B6rt%26%2Fx"


@pytest.fixture
def dsn(box):
    """The DSN of a role that has a password."""
    role = f"{box.schema}_keeper"
    with box.session() as tx:
        tx.connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(sql.Identifier(role), sql.Literal(SECRET))
        )
        tx.connection.execute("SELECT pg_stat_clear_snapshot()")
    yield box.dsn.replace("seriatim@", f"{role}:{WRITTEN}@")
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("REASSIGN OWNED BY {0} TO CURRENT_USER; DROP OWNED BY {0}; DROP ROLE {0}").format(
                sql.Identifier(role)
            )
        )


def told_by(call):
    """All that somebody could see of an error."""
    with pytest.raises(sq.SeriatimError) as caught:
        call()
    error = caught.value
    return "".join(traceback.format_exception(error)) + repr(error) + str(error) + str(error.__dict__)


def work(box):
    """Use a box in every way that writes something; gives what is said and shown."""
    seen = [repr(box), str(box), box.schema]
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue(
            "orders", policy=sq.Standard(), group="customer", sequence="version", keep="everything", max_messages=50
        ),
        sq.Subscription("all", where="type = 'order'", to="orders"),
    )
    message = sq.Message(type="order", context={"customer": "a", "version": 1}, parts=[sq.Part("p", None, b"x")])
    with box.session() as tx:
        seen += [repr(tx), str(tx.dispense("crm"))]
        tx.publish(
            [message, sq.Message(type="other"), sq.Message(type="order", context={"customer": "a", "version": 7})]
        )
    with box.session() as tx:
        delivery = tx.receive("orders")
        seen += [repr(delivery), repr(list(delivery))]
    with box.session() as tx:
        assert tx.receive("orders", wait=0.01) is None
    seen += [
        repr(box_status(box)),
        repr(queues.queues(box)),
        repr(messages.messages(box)),
        repr(box.peek("orders")),
        repr(box.definitions()),
    ]
    seen += [
        repr(retention.purge(box)),
        repr(subscriptions.stop(box, "all")),
        repr(messages.resubmit(box)),
        repr(grants(box)),
    ]
    return seen


def written_in(box):
    """Every row of every table and view of the box, and what the server shows of its sessions, as text."""
    with psycopg.connect(box.dsn) as connection:
        names = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'v')",
            [box.schema],
        ).fetchall()
        rows = [str(connection.execute(f"SELECT one::text FROM {name} AS one").fetchall()) for (name,) in names]
        shown = str(
            connection.execute("SELECT one::text FROM pg_stat_activity AS one WHERE pid <> pg_backend_pid()").fetchall()
        )
    assert len(names) > 20
    assert sum("orders" in text for text in rows) > 3
    return [*rows, shown]


def test_it_is_nowhere_but_in_the_dsn(box, dsn, caplog, capfd, monkeypatch, tmp_path):
    caplog.set_level(logging.DEBUG)
    with sq.MessageBox.open(dsn, schema=box.schema) as own:
        assert own.dsn == dsn
        seen = work(own)
        with pytest.raises(sq.UsageError) as caught, own.session() as tx:
            tx.receive("nowhere")
        seen += traceback.format_exception(caught.value)
        seen.append(told_by(lambda: own.define(sq.Subscription("s", where="nope = 1", to="orders"))))
        seen.append(told_by(lambda: cut(own)))
        monkeypatch.setenv("SERIATIM_TEST_DSN", dsn)
        for words in (["status"], ["status", "--json"], ["migrate"], ["purge", "--json"]):
            result = CliRunner().invoke(main, ["box", *words, "--dsn", "${SERIATIM_TEST_DSN}", "--schema", box.schema])
            assert result.exit_code == 0, result.output
            seen += [result.output, result.stderr]
    for wrong in (
        dsn.replace(box.schema, "nobody"), dsn + "&connect_timeout=x", dsn + "&nothing=1", dsn.replace("//", "/"),
        f"host=127.0.0.1 port=1 user=me password='{SECRET}'", f"host=127.0.0.1 port=1 password='{SECRET}' x",
    ):  # fmt: skip
        seen.append(told_by(lambda wrong=wrong: sq.MessageBox.open(wrong, schema=box.schema)))
        file = tmp_path / "dsn"
        file.touch(mode=0o600)
        file.write_text(wrong)
        result = CliRunner().invoke(main, ["box", "status", "--dsn", f"file:{file}", "--schema", box.schema])
        assert result.exit_code in (2, 3), result.output
        seen.append(result.output)
    seen += [*written_in(box), caplog.text, *capfd.readouterr()]
    for text in seen:
        assert SECRET not in text
        assert WRITTEN not in text
        assert "s3cret" not in text


def cut(box):
    """Publish on a connection that somebody ends."""
    with box.session() as tx:
        victim = tx.connection.execute("SELECT pg_backend_pid()").fetchone()[0]
        with psycopg.connect(box.dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", [victim])
        tx.publish(sq.Message(type="order"))
