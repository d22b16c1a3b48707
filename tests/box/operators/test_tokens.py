"""Tokens of callers over HTTP, and the transactions that run as their roles."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import psycopg
import pytest

import seriatim as sq
from seriatim.box.operators import tokens as of_box
from seriatim.operations import grants, links
from seriatim.operations.tokens import create_token, revoke_token, tokens
from tests.box.roles import as_role, in_sql, make, rows
from tests.databases import box_with


def define(box):
    box.define(
        sq.MessageType("order", properties={"customer_id": "string"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer_id"),
        sq.Queue("bills", policy=sq.Fifo(), group="customer_id"),
        sq.Subscription("orders", "type = 'order'", "orders"),
    )


defined = box_with(define)


@pytest.fixture
def shop(defined):
    """The box with a role for callers, and one for the server."""
    make(defined, "app", "srv")
    grants.grant(defined, "app", publish=["orders"], receive=["orders"])
    return defined


ORDER = sq.Message(type="order", context={"customer_id": "c1"}, message_id="m1")


def found(box, token):
    with box.access.transaction() as transaction:
        return of_box.find(transaction, token)


def test_a_token_is_found_until_it_is_revoked_and_only_its_hash_is_kept(shop):
    token = create_token(shop, "shop", role="app", publish=["orders"], receive=["orders"], server="srv")
    assert (found(shop, token).role, found(shop, token).publish, found(shop, token).is_mighty) == (
        "app",
        ["orders"],
        False,
    )
    assert found(shop, token + "x") is None
    assert token not in str(rows(shop, "SELECT t::text FROM box.tokens AS t"))
    assert [(one.name, one.role, one.server, one.receive) for one in tokens(shop)] == [
        ("shop", "app", "srv", ["orders"])
    ]
    with as_role(shop, "srv") as served:  # which has no rights of its own
        assert found(served, token).name == "shop"
        with pytest.raises(sq.EnvironmentProblem, match="may not publish"):
            served.publish(ORDER)
    revoke_token(shop, "shop")
    assert found(shop, token) is None
    with pytest.raises(sq.NotFound):
        revoke_token(shop, "shop")


def test_a_server_keeps_what_its_tokens_need(shop):
    why = {"actor": "ann", "reason": "a test"}
    token = create_token(shop, "shop", role="app", publish=["orders"], server="srv")
    grants.grant(shop, "srv", see=["orders"])
    grants.revoke(shop, "srv")
    links.accept(shop, "north", role="srv", other=str(uuid4()), queues=["bills"], **why)
    links.remove(shop, "north", **why)
    with as_role(shop, "srv") as served:
        assert found(served, token).name == "shop"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"role": "seriatim"}, "owns the message box, or is a superuser"),
        ({"role": "nobody"}, "there is no role"),
        ({"role": "app", "publish": ()}, "no right"),
        ({"role": "app", "expires": "0s"}, "expire"),
        ({"role": "app", "publish": ["none"]}, "none"),
    ],
)
def test_a_token_that_can_not_be_is_refused(shop, given, why):
    with pytest.raises(sq.UsageError, match=why):
        create_token(shop, "shop", **{"publish": ["orders"], **given})


def test_the_server_may_become_the_role_and_inherits_nothing(shop):
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        connection.execute("GRANT app TO srv")
    create_token(shop, "shop", role="app", publish=["orders"], server="srv")
    assert in_sql(shop, "srv", "SELECT pg_has_role('app', 'SET'), pg_has_role('app', 'USAGE')") == [(True, False)]


def test_each_transaction_of_a_box_as_a_role_runs_as_it(shop):
    create_token(shop, "shop", role="app", publish=["orders"], server="srv")
    with as_role(shop, "srv") as served, served.as_role("app") as app:
        assert app.publish(ORDER).queues == {"m1": ("orders",)}
        assert app.publish(ORDER).left_out == ["m1"]
        with app.session() as tx:
            assert tx.connection.execute("SELECT current_user").fetchone()[0] == "app"
            tx.connection.commit()
            assert tx.connection.execute("SELECT current_user").fetchone()[0] == "app"
            tx.connection.commit()
            delivery = tx.receive("orders", limit=10)
            assert [one.message_id for one in delivery] == ["m1"]
            assert tx.commit_and_receive() is None
        with served.session() as tx:
            assert tx.connection.execute("SELECT current_user").fetchone()[0] == "srv"
        with (
            pytest.raises(sq.EnvironmentProblem, match="permission denied to set role"),
            served.as_role("seriatim") as no,
        ):
            no.publish(ORDER)


def test_coroutines_of_two_roles_wait_on_one_connection(shop):
    make(shop, "other")
    grants.grant(shop, "other", receive=["bills"])
    create_token(shop, "shop", role="app", publish=["orders"], server="srv")
    create_token(shop, "other", role="other", receive=["bills"], server="srv")

    async def received(box, queue):
        async with box.session() as tx:
            delivery = await tx.receive(queue, wait=30)
            return [one.message_id async for one in delivery]

    async def main(served):
        async with sq.AsyncMessageBox(served) as box, box.as_role("app") as app, box.as_role("other") as other:
            waiting = [asyncio.create_task(received(*one)) for one in ((app, "orders"), (other, "bills"))]
            while len(await box.run(lambda _: rows(shop, "SELECT 1 FROM box.waiters"))) < 2:  # noqa: ASYNC110 -- the rows say it
                await asyncio.sleep(0.01)
            ((connections,),) = rows(shop, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'srv'")
            shop.publish(
                [ORDER, sq.Message(type="bill", context={"to": "bills", "customer_id": "c1"}, message_id="m2")]
            )
            return connections, await asyncio.gather(*waiting)

    with as_role(shop, "srv") as served:
        connections, messages = asyncio.run(main(served))
    assert messages == [["m1"], ["m2"]]
    assert connections <= 3


def test_sql_publishes_with_a_delay_a_moment_and_a_key(shop):
    def published(last):
        return rows(shop, f"SELECT box.publish('order', '', '{{\"customer_id\": \"c1\"}}', {last})")[0][0]

    published("message_id => 'c', visible_at => '1980-01-01', \"unique\" => 'k'")
    published("message_id => 'd', \"unique\" => 'k', unrouted => 'keep'")
    published("message_id => 'a', delay => '1 hour'")
    published("message_id => 'b', visible_at => now() + interval '1 hour'")
    with shop.session() as tx:
        assert [one.message_id for one in tx.receive("orders", limit=10)] == ["c"]
    assert [shop.status_of(one).queues[0].until is None for one in "ab"] == [False, False]
    assert rows(shop, "SELECT count(*) FROM box.entries") == [(2,)]
    for wrong in (
        *(
            "delay => '-1 s'",
            "delay => '1 s', visible_at => now()",
            "delay => '100000 days'",
            "visible_at => 'infinity'",
        ),
        *("unrouted => 'refuse'", "unrouted => 'x'", "\"unique\" => ''"),
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            published(wrong)
