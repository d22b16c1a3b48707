"""Open a box for asyncio; and what is told of a `with` of the wrong kind."""

from __future__ import annotations

import asyncio

import pytest

import seriatim as sq


def test_it_is_awaited_or_entered(box):
    async def use():
        opened = await sq.AsyncMessageBox.open(box.dsn, schema=box.schema)
        assert await opened.definitions()
        await opened.close()
        async with (
            sq.AsyncMessageBox.open(box.dsn, schema=box.schema) as entered,
            await sq.AsyncMessageBox.open(box.dsn, schema=box.schema) as other,
        ):
            assert (entered.id, other.id) == (box.id, box.id)
        for closed in (opened, entered, other):
            with pytest.raises(sq.UsageError, match="closed"):
                await closed.definitions()

    asyncio.run(use())


def test_what_can_not_be_opened_is_told_either_way(box):
    async def use():
        with pytest.raises(sq.SchemaMismatch):
            await sq.AsyncMessageBox.open(box.dsn, schema="elsewhere", create=False)
        with pytest.raises(sq.SchemaMismatch):
            async with sq.AsyncMessageBox.open(box.dsn, schema="elsewhere", create=False):
                pass

    asyncio.run(use())


def test_a_forgotten_await_is_told(box):
    forgotten = sq.AsyncMessageBox.open(box.dsn)
    with pytest.raises(sq.UsageError, match="the message box isn't open"):
        forgotten.session()
    assert not hasattr(forgotten, "__array__")


def test_a_plain_with_is_told_to_be_an_async_one(box):
    async def use():
        face = sq.AsyncMessageBox(box)
        for kind, one in {
            "BegunSession": face.session(),
            "AsyncMessageBox": face,
            "Opening": sq.AsyncMessageBox.open(box.dsn, schema=box.schema),
        }.items():
            with pytest.raises(sq.UsageError) as told, one:
                pass
            assert str(told.value) == f"`with` can't enter the asyncio face, and this is a {kind} (write `async with`)"

    asyncio.run(use())


def test_an_async_with_is_told_to_take_the_asyncio_face(box):
    async def use():
        for kind, one in {"SessionBlock": box.session(), "MessageBox": box}.items():
            with pytest.raises(sq.UsageError) as told:
                async with one:
                    pass
            assert told.value.what == f"`async with` needs the asyncio face, and this is a {kind}"
            assert "sq.AsyncMessageBox(box)" in told.value.remedy

    asyncio.run(use())
