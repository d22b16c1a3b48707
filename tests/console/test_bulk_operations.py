"""An action on more groups than one confirmation has: they are gathered, begun, followed and cancelled in the page."""

from __future__ import annotations

import re
import threading

import psycopg
import pytest

from seriatim.console import acting
from seriatim.console.bulk_work import BulkWork
from seriatim.console.who import Actor
from seriatim.operations import bulk_operations as operations
from seriatim.operations import grants, groups
from seriatim.operations.groups import Action, GroupFilter
from seriatim.operations.operator_log import operator_log
from tests.box.roles import as_role, make
from tests.console.conftest import Client
from tests.console.story import ADDRESS, orders, shop, stop

pytestmark = pytest.mark.dear


@pytest.fixture
def shopping(box, monkeypatch):
    monkeypatch.setattr(acting, "MOST_SEEN", 2)
    shop(box, faulted=5, refused=0)
    return Client(box)


def gathered(client, **more):
    form = {"what": "groups", "do": "retry", "error": "ValueError", "reason": "mended", "gather": "yes", "seen": ""}
    return client.post("/bulk", form | more)


def finished(box, number):
    *_, last = operations.follow(box, number)
    return last


def test_more_than_one_confirmation_has_are_gathered_begun_and_done(shopping, box):
    preview = shopping.get("/bulk?what=groups&action=retry&error=ValueError").text
    assert "Retry more than 2 groups?" in preview
    assert "Gather all groups" in preview
    answer = gathered(shopping)
    assert (answer.status_code, answer.headers["location"]) == (303, "/bulk-operations/1")
    page = shopping.get("/bulk-operations/1").text
    assert "Nothing has happened yet" in page
    assert "Begin: retry 5 groups" in page
    assert 'href="/groups/fulfilment/c5"' in page
    groups.skip_message(box, "fulfilment", "c2", actor="bob", reason="gone")
    begun = shopping.post("/act", {"action": "bulk.begin", "name": "1", "reason": "mended"})
    assert begun.headers["location"] == "/bulk-operations/1"
    assert finished(box, 1).done == 4
    page = shopping.get("/bulk-operations/1").text
    assert '<progress max="5" value="5"' in page
    assert "it is ready now, and not as it was seen" in page
    assert ">c5</a>" not in page
    assert ">c5</a>" in shopping.get("/bulk-operations/1?result=done").text
    twin = shopping.get("/bulk-operations/1.json").json()
    assert (twin["done"], twin["changed"], twin["filter"]) == (4, 1, {"error": "ValueError"})
    assert [one["bulk_id"] for one in shopping.get("/bulk-operations.json").json()] == [1]


def test_the_groups_of_one_are_paged(shopping):
    gathered(shopping)
    found, address = [], "/bulk-operations/1?limit=2"
    while address:
        page = shopping.get(address).text
        found += re.findall(r'href="/groups/fulfilment/(c\d)"', page)
        more = re.search(r'rel="next" href="([^"]+)"', page)
        address = more and more[1].replace("&amp;", "&")
    assert found == ["c1", "c2", "c3", "c4", "c5"]


def test_one_is_cancelled_with_a_reason_and_no_more_is_done(shopping, box):
    gathered(shopping)
    assert shopping.post("/act", {"action": "bulk.cancel", "name": "1", "reason": ""}).status_code == 422
    form = {"action": "bulk.cancel", "name": "1", "reason": "not now"}
    assert shopping.post("/act", form).status_code == 303
    assert "not now" in shopping.get("/bulk-operations/1").text
    assert shopping.post("/act", form | {"action": "bulk.begin"}).status_code == 409
    assert groups.group_view(box, "fulfilment", "c1").state == "faulted"


def test_roles_count_for_what_is_done_to_the_groups(shopping, box):
    ann = Client(box, identify=lambda _: Actor("ann", frozenset({"see", "mend"})))
    bob = Client(box, identify=lambda _: Actor("bob", frozenset({"see", "mend", "discard"})))
    eve = Client(box, identify=lambda _: Actor("eve", frozenset({"see"})))
    assert gathered(ann, do="abort").status_code == 403
    assert gathered(bob, do="abort").status_code == 303
    begin = {"action": "bulk.begin", "name": "1", "reason": "r"}
    assert ann.post("/act", begin).status_code == 403
    assert gathered(ann).status_code == 303
    other = begin | {"name": "2"}
    answer = bob.post("/act", other)
    assert (answer.status_code, "who gathers them begins it" in answer.text) == (403, True)
    assert eve.post("/act", begin | {"action": "bulk.cancel"}).status_code == 403
    assert "<form class" not in eve.get("/bulk-operations/2").text.split("<main")[1]
    assert Client(box, reads_only=True).post("/act", other).status_code == 403


@pytest.mark.parametrize(
    ("form", "status"),
    [({"do": "reset"}, 400), ({"what": "dead-letters"}, 400), ({"error": "none of these"}, 404), ({"reason": " "}, 400),
     ({"queue": "none"}, 404), ({"state": "odd"}, 400)],
)  # fmt: skip
def test_what_can_not_be_gathered_is_refused(shopping, box, form, status):
    assert gathered(shopping, **form).status_code == status
    assert operations.bulk_operations(box) == []


def test_what_is_not_there_is_told(shopping):
    for address in ("/bulk-operations/9", "/bulk-operations/x"):
        assert shopping.get(address).status_code == 404
    assert shopping.post("/act", {"action": "bulk.begin", "name": "9", "reason": "r"}).status_code == 404
    assert shopping.post("/act", {"action": "bulk.begin", "name": "x", "reason": "r"}).status_code == 422


def test_a_console_goes_on_with_what_another_process_left(shopping, box):
    found = operations.gather_chosen(
        box, Action.RETRY, GroupFilter("fulfilment"), chosen_by={}, actor="ann", reason="r"
    )  # fmt: skip
    operations.begin(box, found.bulk_id)
    page = shopping.get(f"/bulk-operations/{found.bulk_id}").text
    assert "running" in page
    assert finished(box, found.bulk_id).done == 5


def test_work_that_is_woken_again_and_ended_leaves_no_thread(box):
    work = BulkWork(box)
    for _ in range(3):
        work.wake()
    work.end()
    work.wake()
    assert not [one for one in threading.enumerate() if one.name == "seriatim-bulk" and one.is_alive()]


def test_work_ends_with_its_box_and_says_nothing(box, caplog):
    box.close()
    work = BulkWork(box)
    work.wake()
    for one in threading.enumerate():
        if one.name == "seriatim-bulk":
            one.join(120)
    assert (work._thread, told(caplog)) == (None, [])


def told(caplog):
    return [one.event for one in caplog.records if one.name == "seriatim.console"]


_OBSTACLES = {
    "a table that is away": (
        "ALTER TABLE {box}.bulk_groups RENAME TO gone",
        "ALTER TABLE {box}.gone RENAME TO bulk_groups",
    ),
    "a server that is read-only, as after a failover": (
        """CREATE FUNCTION {box}.away() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE ''read-only'' USING ERRCODE = ''read_only_sql_transaction''; END';
        CREATE TRIGGER away BEFORE UPDATE ON {box}.bulk_operations EXECUTE FUNCTION {box}.away()""",
        "DROP FUNCTION {box}.away CASCADE",
    ),
}


@pytest.mark.parametrize("obstacle", _OBSTACLES)
def test_work_goes_on_after_an_error_that_passes(box, monkeypatch, caplog, obstacle):
    monkeypatch.setattr("seriatim.console.bulk_work._AGAIN_S", 0.1)
    comes, goes = (one.format(box=box.schema) for one in _OBSTACLES[obstacle])
    shop(box, faulted=3, refused=0)
    begun = operations.gather_chosen(
        box, Action.RETRY, GroupFilter("fulfilment"), chosen_by={}, actor="ann", reason="r"
    )  # fmt: skip
    operations.begin(box, begun.bulk_id)
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(comes)
        work = BulkWork(box)
        work.wake()
        thread = work._thread
        while thread.is_alive() and not told(caplog):
            thread.join(0.05)
        connection.execute(goes)
    thread.join(120)
    assert not thread.is_alive()
    assert told(caplog) == ["bulk_interrupted"]
    assert operations.bulk_operation(box, begun.bulk_id).done == 3


def test_work_ends_where_the_role_may_operate_nowhere_and_is_told_once(box, caplog):
    make(box, "onlooker")
    shop(box, faulted=1, refused=0)
    grants.grant(box, "onlooker", see=["fulfilment"])
    with as_role(box, "onlooker") as looking:
        work = BulkWork(looking)
        for _ in range(2):
            work.wake()
            for one in threading.enumerate():
                if one.name == "seriatim-bulk":
                    one.join(120)
            assert work._thread is None
    assert told(caplog) == ["bulk_interrupted"]


def test_some_groups_are_acted_on_together_as_they_were_seen(box, monkeypatch):
    monkeypatch.setattr("seriatim.console.acting._FEW", 2)
    shop(box, faulted=6, refused=0)
    client = Client(box)
    page = client.get("/bulk?what=groups&action=retry&queue=fulfilment").text
    seen = re.search(r'name="seen" value="([^"]+)"', page)[1]
    groups.skip_message(box, "fulfilment", "c2", actor="bob", reason="gone")
    orders(box, "c9", 1)
    stop(box, "c9", ADDRESS)
    form = {"what": "groups", "do": "retry", "queue": "fulfilment", "reason": "mended", "seen": seen}
    done = client.post("/bulk", form)
    assert "Retry: 5 groups" in done.text
    assert "Left out: 1" in done.text
    assert ">c9</a>" in done.text
    assert {groups.group_view(box, "fulfilment", f"c{at}").state for at in (1, 3, 4, 5, 6)} == {"ready"}
    (one,) = operations.bulk_operations(box)
    assert (one.state, one.done, one.reason, dict(one.filter)) == (
        "ended", 5, "mended", {"queue": "fulfilment"},
    )  # fmt: skip
    assert [entry.group for entry in operator_log(box) if entry.action == "retry"] == ["c6", "c5", "c4", "c3", "c1"]


def test_what_takes_long_goes_on_without_the_page(box, monkeypatch):
    monkeypatch.setattr("seriatim.console.acting._FEW", 2)
    monkeypatch.setattr("seriatim.console.acting._PATIENCE_S", -1)
    shop(box, faulted=3, refused=0)
    client = Client(box)
    page = client.get("/bulk?what=groups&action=retry").text
    seen = re.search(r'name="seen" value="([^"]+)"', page)[1]
    monkeypatch.setattr("seriatim.console.bulk_work.BulkWork.wake", lambda _: None)
    form = {"what": "groups", "do": "retry", "reason": "mended", "seen": seen}
    done = client.post("/bulk", form).text
    assert "3 groups are still to be done" in done
    assert 'href="/bulk-operations/1"' in done
