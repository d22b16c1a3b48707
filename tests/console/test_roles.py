"""What the database role of the console may do bounds what its pages show and do."""

from __future__ import annotations

import time

import pytest

from seriatim.console.pages import pages
from seriatim.operations.grants import grant
from seriatim.operations.looking import open_to_look
from tests.box.roles import as_role, make
from tests.console.conftest import Client
from tests.console.story import shop
from tests.console.test_acting import state

#: What only the owner of a box may look at.
OWNERS = {"schedules", "dialogs", "links", "transmission"}


@pytest.fixture
def seeing(box):
    """A console with a role that may look at one queue."""
    shop(box, faulted=2, refused=1)
    make(box, "viewer")
    grant(box, "viewer", see=["fulfilment"])
    with as_role(box, "viewer") as own:
        yield Client(own)


def test_a_role_that_may_look_sees_its_queue_on_every_page(seeing):
    told = {page.paths[0]: seeing.get(f"/{page.paths[0]}") for page in pages() if page.section}
    assert {path: answer.status_code for path, answer in told.items() if answer.status_code != 200} == dict.fromkeys(
        OWNERS, 403
    )
    assert "fulfilment" in told[""].text
    assert "billing" not in told[""].text
    assert 'The law of conservation: <span class="numbers">received' in told[""].text
    assert "vendor" in told["log"].text
    assert "c1" in told["groups"].text
    page = seeing.get("/groups/fulfilment/c1")
    assert "order 4711 has no postcode" in page.text
    assert "Edit its body first" not in page.text


def test_what_the_role_may_not_do_is_refused_by_the_database(seeing, box):
    import re

    text = seeing.get("/groups/fulfilment/c1").text
    seen = re.search(r'name="seen" value="([^"]+)"', text)[1]
    form = {"action": "retry", "queue": "fulfilment", "group": "c1", "reason": "r", "seen": seen}
    answer = seeing.post("/act", form)
    assert answer.status_code == 403, answer.text
    assert state(box, "c1", "fulfilment") == "faulted"
    assert seeing.get("/queues/billing").status_code == 404
    (one, *_) = seeing.get("/messages.json?queue=fulfilment").json()
    assert seeing.get(f"/messages/{one['message_id']}").status_code == 403


def test_a_statement_that_takes_too_long_and_a_box_that_is_away_are_told_of(filled):
    with open_to_look(filled.dsn, schema=filled.schema, statement_s=1.0) as looking:
        client = Client(looking)
        with filled.session() as tx:  # nobody may read a table that is being changed
            tx.connection.execute(f"LOCK TABLE {filled.schema}.faults IN ACCESS EXCLUSIVE MODE")
            answer = client.get("/faults")
            assert answer.status_code == 503, answer.text
            tx.connection.rollback()
        until = time.monotonic() + 120
        while client.get("/faults").status_code != 200:  # a statement may take a second on a busy machine, too
            assert time.monotonic() < until
