"""What a user's type checker says of code that uses the package."""

from __future__ import annotations

import sys

import pytest
from mypy import api

SERVICE = '''
"""A service with a handler of each kind."""

from datetime import datetime
from decimal import Decimal

import msgspec
import seriatim as sq
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session


class Order(msgspec.Struct):
    customer: str
    version: int


def handle(message: sq.Received, tx: sq.Session) -> sq.Message | None:
    customer: str = message.text("customer")
    version: int = message.whole("version")
    amount: Decimal = message.decimal("amount")
    weight: float = message.double("weight")
    paid: bool = message.flag("paid")
    at: datetime = message.moment("at")
    order = sq.context_as(Order, message)
    tx.connection.execute("INSERT INTO orders VALUES (%s, %s, %s)", [customer, version, weight])
    return sq.Message(type="paid", context={"customer": order.customer, "amount": amount, "at": at}) if paid else None


async def handle_async(message: sq.Received, tx: sq.AsyncSession) -> None:
    await tx.execute("INSERT INTO orders VALUES (%s)", [message.text("customer")])


async def serve(orm: AsyncSession) -> None:
    async with sq.AsyncMessageBox.open(unrouted="refuse") as box:
        await box.define(sq.Queue("orders", sq.Fifo(), group=sq.WHOLE_QUEUE))
        async with box.session(await sq.join(orm)) as tx:
            await tx.publish(sq.Message(type="order"))
    opened: sq.AsyncMessageBox = await sq.AsyncMessageBox.open()
    await opened.close()


def work(orm: Session) -> None:
    with sq.MessageBox.open() as box:
        with box.session(sq.join(orm)) as tx:
            tx.publish(sq.Message(type="order"))
        sq.Worker(box, "orders", handle).run(until_idle=True)
'''
WRONG = """
import seriatim as sq


def handle(message: sq.Received, tx: sq.Session) -> None:
    version: int = message.text("version")


async def serve(box: sq.AsyncMessageBox) -> None:
    with box.session() as tx:
        pass
"""


@pytest.mark.dear
def test_a_strict_type_checker_finds_no_fault_and_knows_the_types(tmp_path):
    def told(name, text):
        file = tmp_path / name
        file.write_text(text)
        limit = sys.getrecursionlimit()
        try:
            out, err, _ = api.run(["--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}", str(file)])
        finally:
            sys.setrecursionlimit(limit)  # mypy raises it, and other tests go by it
        return out + err

    assert told("service.py", SERVICE).startswith("Success")
    wrong = told("wrong.py", WRONG)
    assert 'expression has type "str", variable has type "int"' in wrong
    assert 'has no attribute "__enter__"' in wrong
