"""A box with a role and a token, and the face over HTTP in front of it."""

from __future__ import annotations

from contextlib import contextmanager

import httpx
import psycopg
import pytest

import seriatim as sq
from seriatim.http.serving import HttpServer
from seriatim.operations import grants
from seriatim.operations.tokens import create_token
from tests.box.roles import as_role, make
from tests.databases import box_with, fresh_box

#: Roles of a server that outlives a test: others have theirs at the same time.
_OF_MODULE = "app_of_module", "srv_of_module"
QUEUES = ["orders", "few"]


def fill(box):
    box.define(
        sq.MessageType(
            "order", properties={"customer_id": {"type": "string", "path": "$.customer"}, "source": "string"}
        ),
        sq.Queue("orders", policy=sq.Fifo(), group="customer_id"),
        sq.Queue("few", policy=sq.Unordered(), max_messages=2),
        sq.Queue("other", policy=sq.Unordered()),
        sq.Subscription("orders", "type = 'order'", "orders"),
        sq.Subscription("few", "type = 'few'", "few"),
        sq.Subscription("other", "type = 'other'", "other"),
    )


emptied = box_with(fill)


def with_roles(box, app="app", srv="srv"):
    """The box with a role for callers, and one for the server. Roles go with a test."""
    make(box, app, srv)
    grants.grant(box, app, publish=[*QUEUES, "other"], receive=QUEUES, see=QUEUES)
    return box


@pytest.fixture
def filled(emptied):
    return with_roles(emptied)


class Face:
    """The face over HTTP of a box, and a client of it with a token."""

    def __init__(self, box, server, token):
        self.box, self.server, self.token = box, server, token
        self.client = self.with_token(token)

    def with_token(self, token):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.server.address, headers=headers, timeout=180)

    def get(self, *given, **more):
        return self.client.get(*given, **more)

    def post(self, *given, **more):
        return self.client.post(*given, **more)

    def received(self, queue="orders"):
        with self.box.session() as tx:
            return list(tx.receive(queue, limit=100) or ())


@contextmanager
def serving(box, app="app", srv="srv", **options):
    """The face of a box; the server connects as a role that has no rights of its own."""
    token = create_token(box, "shop", role=app, publish=QUEUES, receive=QUEUES, server=srv)
    with as_role(box, srv) as served:
        server = HttpServer(served, "127.0.0.1:0", **options)
        server.start()
        try:
            face = Face(box, server, token)
            yield face
            face.client.close()
        finally:
            server.close()


@pytest.fixture
def face(filled):
    with serving(filled) as found:
        yield found


def connections(box):
    """How many connections the server has to PostgreSQL."""
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        return connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'srv'").fetchone()[0]


def waiting(box, count):
    """Return when so many queues and roles are waited for."""
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        while connection.execute(f"SELECT count(*) FROM {box.schema}.waiters").fetchone()[0] < count:
            connection.execute("SELECT pg_sleep(0.02)")


@pytest.fixture(scope="module")
def face_to_refuse(databases):
    """A face that only refuses, for all tests of a module."""
    with fresh_box(databases, fill) as box, serving(with_roles(box, *_OF_MODULE), *_OF_MODULE) as found:
        yield found
