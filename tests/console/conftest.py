"""A box with something on every page, and the console in front of it."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest

import seriatim as sq
from seriatim.console import live
from seriatim.console.app import create_app
from seriatim.console.who import everybody
from seriatim.operations import groups
from tests.box.console import BY, define, failing, publish, received
from tests.databases import box_with

#: A key that is nasty in an address.
NASTY = "a/b%2F?#ü.json"
SAME = {"sec-fetch-site": "same-origin"}


def fill(box):
    """A row on every page."""
    define(box, sq.Standard())
    publish(box, 1, 2, 4, 1, group="c1")
    failing(box, group="c1")
    publish(box, 2, 3, 7, 9, group="c2")
    assert not received(box, "c2")
    publish(box, 1, group=NASTY)
    publish(box, 1, 2, group="c3")
    failing(box, group="c3")
    groups.skip_message(box, "shop", "c3", **BY)
    groups.suspend(box, "shop", "c3", actor="ann", reason="vendor, ticket 4711")
    with box.session() as tx:
        tx.publish(sq.Message(type="stray", body=b"\x00\x01\xff"))


filled = box_with(fill)


@pytest.fixture(autouse=True)
def _looks_are_waited_for(monkeypatch):
    """A page shows what there is, and not what there was a quarter of a second ago, however busy the machine is."""
    monkeypatch.setattr(live, "_FIRST_S", 120.0)
    monkeypatch.setattr(live, "_STANDING_S", 120.0)
    monkeypatch.setattr(live.Look.__init__, "__defaults__", (120.0,))


@pytest.fixture(autouse=True)
def _work_ends_with_its_box():
    """What a console does beside its pages comes to an end with the test: no other test finds its thread, or its log."""
    yield
    for one in threading.enumerate():
        if one.name == "seriatim-bulk":
            one.join(120)
            assert not one.is_alive()


class Client:
    """Asks a console as a browser would, in this process."""

    def __init__(self, box, *, base="http://127.0.0.1:8470", client=("127.0.0.1", 50000), **options):
        self.app = create_app(box, **{"identify": everybody()} | options)
        self._transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=client)
        self._base = base

    def request(self, method, address, **given):
        async def ask():
            async with httpx.AsyncClient(transport=self._transport, base_url=self._base) as client:
                return await client.request(method, address, **given)

        return asyncio.run(ask())

    def get(self, address, **given):
        return self.request("GET", address, **given)

    def post(self, address, form, *, headers=None, **given):
        return self.request("POST", address, data=form, headers=SAME if headers is None else headers, **given)


@pytest.fixture
def client(filled):
    return Client(filled)
