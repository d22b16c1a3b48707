"""A table is declared once: what people see and what JSON has come from the same columns."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from seriatim.cli.shown.table import Column, Table, as_json, json_only, lines_of, print_object, print_rows, text_only


@dataclass(frozen=True)
class Cup:
    """A row."""

    cup_id: int
    owner: str | None
    millilitres: int
    is_full: bool = False


@dataclass(frozen=True)
class Broken:
    """Another row."""

    why: str


CUPS: Table[Cup] = Table(
    "A cup",
    Column("cup_id", "cup", shown=lambda one: str(one.cup_id)),
    *json_only("millilitres"),
    text_only("litres", lambda one: f"{one.millilitres / 1000:g}", "its volume"),
    Column("owner", optional=True),
    Column("is_full", "full", after="cup"),
    row=f"{__name__}:Cup",
)
CUP, OTHER = Cup(1, None, 1500), Cup(22, "Zoë", 250, is_full=True)


def test_people_and_json_see_the_same_columns():
    assert list(lines_of(CUPS, [CUP, OTHER])) == [
        "cup  full  litres  owner",
        "1      no  1.5",
        "22    yes  0.25    Zoë",
    ]
    assert CUPS.objects_of([CUP, OTHER]) == [
        {"cup_id": 1, "millilitres": 1500, "is_full": False},
        {"cup_id": 22, "millilitres": 250, "owner": "Zoë", "is_full": True},
    ]
    assert list(CUPS.object_of(OTHER)) == ["cup_id", "millilitres", "owner", "is_full"]


def test_a_new_column_is_one_line():
    more = CUPS.extended("A cup with its volume", Column("millilitres", "volume"))
    assert more.headings == (*CUPS.headings, "volume")
    assert list(lines_of(more, [OTHER]))[1].endswith("  250")
    first = CUPS.extended("A cup of something", first=[Column("of", None)])
    assert first.object_of(OTHER, of="tea") == {"of": "tea", **CUPS.object_of(OTHER)}


def test_an_optional_column_is_there_if_a_row_has_it():
    assert "owner" not in next(lines_of(CUPS, [CUP]))
    assert "owner" in next(lines_of(CUPS, [CUP, OTHER]))


def test_a_part_of_the_columns_leaves_json_as_it_is():
    for some in (CUPS.only("cup", "litres"), CUPS.without("full", "owner")):
        assert next(lines_of(some, [OTHER])) == "cup  litres"
        assert some.object_of(OTHER) == CUPS.object_of(OTHER)


def test_rows_in_a_row():
    broken: Table[Broken] = Table("A broken cup", *json_only("why"), row=f"{__name__}:Broken")
    shelf: Table[dict[str, object]] = Table(
        "A shelf", Column("best", None, rows=CUPS), Column("cups", None, rows=(CUPS, broken), optional=True)
    )
    assert shelf.object_of({"best": None}) == {"best": None}
    assert shelf.object_of({"best": CUP, "cups": [OTHER, Broken("it fell")]}) == {
        "best": CUPS.object_of(CUP),
        "cups": [CUPS.object_of(OTHER), {"why": "it fell"}],
    }


def test_what_was_written_is_printed_whole():
    written: Table[dict[str, object]] = Table("A row of a file", *json_only("known"), more="the others")
    assert written.object_of({"known": 1, "other": 2}) == {"known": 1, "other": 2}


def test_printing(capsys):
    print_rows(CUPS, [])
    print_rows(CUPS, [], json_=True)
    assert capsys.readouterr().out == "there are none\n[]\n"
    print_rows(CUPS.only("cup", nothing=None), [])
    assert capsys.readouterr().out == "cup\n"
    print_rows(CUPS, [CUP], limit=1)
    assert capsys.readouterr().err == "stopped at 1, there may be more: --limit N lists more\n"
    print_rows(CUPS, [CUP], json_=True, limit=1)
    told = capsys.readouterr()
    assert (json.loads(told.out), told.err) == (CUPS.objects_of([CUP]), "")
    print_object(CUPS, OTHER)
    assert capsys.readouterr().out == f"{as_json(CUPS.object_of(OTHER))}\n"


def test_a_place_behind_a_heading_that_is_not_there():
    with pytest.raises(ValueError, match="none"):
        Table("A cup", Column("cup_id", after="none"))
