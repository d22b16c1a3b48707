"""``seriatim box``: what whoever runs a message box types and reads."""

from __future__ import annotations

import json

import psycopg
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main


def call(*words, code=0):
    result = CliRunner().invoke(main, ["box", *words])
    assert result.exit_code == code, result.output
    return result


def test_migrate_status_and_sql(box):
    where = ("--dsn", box.dsn, "--schema", f"{box.schema}_cli")
    assert "applied 0090 baseline" in call("migrate", *where).stdout
    assert call("migrate", *where).stdout == "up to date\n"
    with sq.MessageBox.open(box.dsn, schema=f"{box.schema}_cli") as made, made.session() as tx:
        tx.dispense("crm", count=1234)
    assert "crm: next is 1,235 of epoch 0" in call("status", *where).stdout
    told = json.loads(call("status", *where, "--json").stdout)
    assert told["locations"] == [
        {
            "location": "crm", "epoch": 0, "next_number": 1235, "last_number": 2**53 - 1,
            "last_sent_epoch": 0, "last_sent": 1234, "in_queue": 0,
        }
    ]  # fmt: skip
    assert told["version"] >= 1
    assert told["size_bytes"] > 0
    assert told["schema"] == f"{box.schema}_cli"


def test_the_sql_makes_a_box(box):
    text = call("sql", "--schema", f"{box.schema}_by_hand").stdout
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(text)
    assert call("migrate", "--dsn", box.dsn, "--schema", f"{box.schema}_by_hand").stdout == "up to date\n"


def test_without_a_dsn_it_is_the_embedded_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    call("migrate")
    assert (tmp_path / ".seriatim/postgres/data/PG_VERSION").is_file()
    assert "PostgreSQL" in call("status").stdout


def test_a_server_that_cannot_be_reached():
    result = call("status", "--dsn", "postgresql://me:s3cret@127.0.0.1:1/orders", code=3)
    assert "127.0.0.1:1/orders" in result.stderr
    assert "s3cret" not in result.output


def test_a_newer_schema(box):
    with box.session() as tx:
        tx.connection.execute(f"INSERT INTO {box.schema}.migrations VALUES (9999, 'of the future')")
    result = call("status", "--dsn", box.dsn, "--schema", box.schema, code=3)
    assert "pip install --upgrade seriatim" in result.stderr
