"""Which statements of an SQL text end a transaction, go back in it, or set something that outlasts it."""

from __future__ import annotations

import pytest

from seriatim.box.connection import statement_effects
from seriatim.box.connection.statement_effects import Effect, effect_of

ENDS = [
    "COMMIT", "commit work", "END", "End Transaction;", "ABORT", "ROLLBACK", "rollback and chain", "BEGIN",
    "START TRANSACTION READ ONLY", "PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'",
    ";;COMMIT", "-- so\nCOMMIT", "-- so\r\n COMMIT", "/* a /* b */ c */COMMIT", "/**/ -- x\n/*;*/ END", "SELECT 1; COMMIT",
    "SELECT ';'; COMMIT", "SELECT E'\\';'; COMMIT -- '", "SELECT $$;$$, $a$ $$ ; $a$; COMMIT", 'SELECT "a;b"; ABORT',
    "SELECT 'it''s'; ROLLBACK", "SELECT U&'\\0041'; END", 'SELECT 1 AS "END"; END', "COMMIT;BEGIN", "SELECT\u00a01;COMMIT",
    "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN TRUE THEN 1 END; END; COMMIT",
    "INSERT INTO t VALUES (%s); COMMIT",
]  # fmt: skip
NONE = [
    "", ";", "SELECT 1", "SELECT 'COMMIT'", "SELECT $$; COMMIT;$$", "SELECT $tag$; COMMIT;$tag$", 'SELECT "; COMMIT; "',
    "/* ; COMMIT; */ SELECT 1", "-- COMMIT\nSELECT 1", "SELECT E'\\'; COMMIT; '", "SELECT CASE WHEN TRUE THEN 1 END",
    "SAVEPOINT a", "RELEASE SAVEPOINT a; SAVEPOINT a", "PREPARE commit AS SELECT 1", "SELECT committed FROM t",
    "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END",
    "CREATE OR REPLACE PROCEDURE f() BEGIN ATOMIC SELECT CASE WHEN TRUE THEN 1 END; SELECT 2; END;",
    "DO $$ BEGIN PERFORM 1; END $$", "UPDATE t SET a = 1", "SET LOCAL work_mem = '1MB'", "SET TRANSACTION READ ONLY",
    "SELECT set_config('app.user', %s, TRUE), 1", "SELECT set_config('a.b', '1', true), set_config ( 'c.d' , '2',true )",
    "SET CONSTRAINTS ALL IMMEDIATE", "INSERT INTO t VALUES ('it''s; COMMIT;')", "SELECT a$b$ FROM t; SELECT 1$$;COMMIT",
]  # fmt: skip


@pytest.mark.parametrize("text", ENDS)
def test_what_ends_a_transaction(text):
    assert effect_of(text) is Effect.ENDS
    assert effect_of(text + " " * 5000) is Effect.ENDS


@pytest.mark.parametrize("text", NONE)
def test_what_does_nothing_to_it(text):
    assert effect_of(text) is Effect.NONE


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("ROLLBACK TO a", Effect.GOES_BACK),
        ("rollback work to savepoint a", Effect.GOES_BACK),
        ("ROLLBACK /* x */ TRANSACTION TO SAVEPOINT a; SELECT 1", Effect.GOES_BACK),
        ("ROLLBACK TO a; COMMIT", Effect.GOES_BACK | Effect.ENDS),
        ("SET client_encoding = 'SQL_ASCII'", Effect.SETS),
        ("SET SESSION AUTHORIZATION x", Effect.SETS),
        ("set role x", Effect.SETS),
        ("RESET ALL", Effect.SETS),
        ("DISCARD TEMP", Effect.SETS),
        ("listen jobs", Effect.SETS),
        ("UNLISTEN jobs", Effect.NONE),
        ("SELECT set_config('search_path', 'x', FALSE)", Effect.SETS),
        ("SELECT set_config('a.b', '1', TRUE), set_config('a.b', '1', %s)", Effect.SETS),
        ("SELECT 'set_config( x'; COMMIT; SELECT ',true)'", Effect.ENDS),
        ("SELECT pg_catalog.set_config('search_path', 'x', FALSE); ROLLBACK", Effect.SETS | Effect.ENDS),
    ],
)
def test_what_goes_back_or_sets(text, effect):
    assert effect_of(text) is effect


def test_long_texts_are_read_once():
    text = f"SELECT set_config('x', '{'y' * 5000}', false)"
    before = statement_effects._remembered_long.cache_info()
    assert effect_of(text) == effect_of(text) == Effect.SETS
    after = statement_effects._remembered_long.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 1)
