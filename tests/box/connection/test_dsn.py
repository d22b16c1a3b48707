"""DSNs: where they come from, and that no secret leaves by an error, a name or a trace."""

from __future__ import annotations

import logging
import traceback

import pytest

import seriatim as sq
from seriatim.box.connection.dsn import place_of, resolve, without_secret
from seriatim.operations.box_status import box_status

SECRET = "s3cret-wort"
NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://me:{SECRET}@{NOWHERE}/orders",
        f"host=127.0.0.1 port=1 dbname=orders user=me password={SECRET}",
        "postgresql://me:${SERIATIM_TEST_SECRET}@127.0.0.1:1/orders",
        "host=127.0.0.1 port=1 dbname=orders user=me password=${SERIATIM_TEST_SECRET}",
        "${SERIATIM_TEST_DSN}",
        "file:",
    ],
)
def test_a_server_that_cannot_be_reached_is_named_without_the_secret(dsn, tmp_path, monkeypatch, caplog, capfd):
    monkeypatch.setenv("SERIATIM_TEST_SECRET", SECRET)
    monkeypatch.setenv("SERIATIM_TEST_DSN", f"postgresql://me:{SECRET}@{NOWHERE}/orders")
    if dsn == "file:":
        file = tmp_path / "dsn"
        file.touch(mode=0o600)
        file.write_text(f"postgresql://me:{SECRET}@{NOWHERE}/orders\n")
        dsn += str(file)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(sq.EnvironmentProblem, match="can't be reached") as caught:
        sq.MessageBox.open(dsn)
    assert "127.0.0.1:1/orders" in str(caught.value)
    told = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(capfd.readouterr())
    assert SECRET not in told


@pytest.mark.parametrize(
    "dsn", [f"host=h password {SECRET}", f"postgresql://me:{SECRET}@h:x:y/%", f"{SECRET}", "", " "]
)
def test_what_is_no_dsn_is_not_quoted(dsn):
    with pytest.raises(sq.UsageError, match="DSN") as caught:
        resolve(dsn)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("begins", "told"),
    [
        ("postgresql+psycopg://", "remove '+psycopg': postgresql://…"),
        ("postgres+asyncpg://", "remove '+asyncpg': postgres://…"),
        ("jdbc:postgresql://", "remove 'jdbc:': postgresql://…"),
    ],
)
def test_the_address_of_another_library_says_what_to_remove(begins, told):
    for read in (resolve, without_secret):
        with pytest.raises(sq.UsageError, match="names a driver") as caught:
            read(f"{begins}me:{SECRET}@h/d")
        assert caught.value.remedy == told
        assert SECRET not in str(caught.value)


def test_a_box_is_shown_without_its_secret(box):
    dsn = box.dsn.replace("seriatim@", f"seriatim:{SECRET}@")
    with sq.MessageBox.open(dsn, schema=box.schema) as again:
        assert SECRET not in repr(again)
        assert SECRET not in str(box_status(again))
        assert again.dsn == dsn
        with pytest.raises(sq.UsageError) as caught, again.session() as tx:
            tx.dispense("")
        assert SECRET not in str(caught.value)


def test_variables_are_quoted_as_the_dsn_needs_it():
    environment = {"P": "a b'c\\d@/:%", "DSN": "host=h dbname=${P}"}
    assert resolve("postgresql://u:${P}@h/d", environment) == "postgresql://u:a%20b%27c%5Cd%40%2F%3A%25@h/d"
    assert resolve("host=h password=${P}", environment) == r"host=h password='a b\'c\\d@/:%'"
    assert resolve("${DSN}", environment) == "host=h dbname=${P}"
    with pytest.raises(sq.UsageError, match=r"\$\{MISSING\}"):
        resolve("postgresql://u:${MISSING}@h/d", environment)


def test_a_file_that_others_can_read(tmp_path):
    file = tmp_path / "dsn"
    file.write_text("host=h")
    file.chmod(0o640)
    with pytest.raises(sq.EnvironmentProblem, match="can be read by others"):
        resolve(f"file:{file}")
    with pytest.raises(sq.EnvironmentProblem, match="No such file"):
        resolve(f"file:{tmp_path / 'none'}")


def test_what_is_no_file_of_text(tmp_path):
    with pytest.raises(sq.EnvironmentProblem, match=r"is no file"):
        resolve(f"file:{tmp_path}")
    file = tmp_path / "dsn"
    file.write_bytes(f"host=h password={SECRET}\xe4".encode("latin-1"))
    file.chmod(0o600)
    with pytest.raises(sq.EnvironmentProblem, match="is not UTF-8") as caught:
        resolve(f"file:{file}")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(sq.UsageError, match="the DSN is not UTF-8"):
        resolve("host=h\ud800")


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://me:x@db.example:6432/orders", "db.example:6432/orders, schema s"),
        ("host=/run/pg user=me", "/run/pg:5432/me, schema s"),
        ("service=orders", "service orders, schema s"),
        ("user=me", "pg.example:5432/orders, schema s"),
    ],
)
def test_the_place_of_a_dsn(dsn, place):
    environment = {"PGHOST": "pg.example", "PGDATABASE": "orders"} if dsn == "user=me" else {}
    assert place_of(dsn, "s", environment) == place


def test_the_environment_names_the_box(box, monkeypatch):
    monkeypatch.setenv("SERIATIM_DSN", box.dsn)
    with sq.MessageBox.open(schema=box.schema) as again:
        assert again.dsn == box.dsn


@pytest.mark.parametrize("schema", ["", "Box", "a-b", 'a"b', "pg_box", "x" * 64, "1a", "ä"])
def test_a_schema_that_is_none(schema):
    with pytest.raises(sq.UsageError, match="can't be the schema"):
        sq.MessageBox.open(schema=schema)
