"""Filters are parsed once: a change of one among many costs one."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.definitions.definition import BoxQueue, BoxSubscription, Definitions
from seriatim.box.definitions.route import Router
from seriatim.kernel.filters.filter import type_from
from seriatim.pipeline.filters import syntax
from seriatim.pipeline.filters.syntax import named, parsed

TYPES = {"customer": type_from("string"), "version": type_from("long")}


@pytest.fixture
def trees(monkeypatch):
    """The texts that are parsed."""
    syntax._remembered.cache_clear()
    syntax._named.cache_clear()
    found = []
    real = syntax._tree

    def tree(written, words):
        found.append(written.text)
        return real(written, words)

    monkeypatch.setattr(syntax, "_tree", tree)
    return found


def definitions(version, wheres, types=None):
    kind = sq.MessageType("order", properties=types or {"customer": "string", "version": "long"})
    queue = BoxQueue(1, sq.Queue("q", policy=sq.Fifo(), group="customer"), enabled=True, owner=None)
    subscriptions = {
        f"s{n}": BoxSubscription(n, sq.Subscription(f"s{n}", where=where, to="q"), "started")
        for n, where in enumerate(wheres)
    }
    return Definitions(version, {"order": kind}, {"q": queue}, subscriptions)


def test_a_change_of_one_parses_one(trees):
    wheres = [f"customer = 'c{n}'" for n in range(50)]
    Router(definitions(1, wheres))
    assert sorted(trees) == sorted(wheres)
    trees.clear()
    Router(definitions(2, [*wheres[:-1], "version > 7"]))
    assert trees == ["version > 7"]
    Router(definitions(3, wheres))
    assert trees == ["version > 7"]


def test_only_the_types_of_what_it_names_count(trees):
    first = parsed("version = 7", TYPES)
    assert parsed("version = 7", {**TYPES, "more": type_from("boolean")}, where="elsewhere") is first
    assert parsed("version = 7", {"version": type_from("decimal(9,2)")}) != first
    assert parsed("version = 7", TYPES) is first
    assert len(trees) == 2


def test_only_the_last_typings_are_kept(trees):
    for digits in range(1, 9):
        parsed("version = 7", {"version": type_from(f"decimal({digits},0)")})
    assert len(syntax._remembered("version = 7")) == 4
    assert len(trees) == 8


def test_what_is_wrong_is_told_with_its_own_place_each_time():
    for where in ("subscription 'a'", "subscription 'b'", ""):
        place = f"{where}:1:1" if where else "1:1"
        with pytest.raises(sq.FilterError, match="there is no property 'gone'") as caught:
            parsed("gone = 1", TYPES, where=where)
        assert caught.value.where == place
        with pytest.raises(sq.FilterError, match="ends too early") as caught:
            named("gone =", where=where)
        assert caught.value.where == (f"{where}:1:7" if where else "1:7")
    parsed("customer = 'x'", TYPES)
    with pytest.raises(sq.FilterError, match="there is no property 'customer'"):
        parsed("customer = 'x'", {"version": type_from("long")})
    with pytest.raises(sq.ColumnError, match="can't look at 'customer'"):
        parsed("customer = 'x'", {}, unfit={"customer": "binary"})
