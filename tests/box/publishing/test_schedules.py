"""Schedules: a message for each due time, once in the whole box, whoever looks and whatever is killed."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice

import psycopg
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.definitions.schedules import scheduled
from seriatim.box.publishing.schedules import publish_due
from seriatim.cli.main import main
from seriatim.operations import schedules
from seriatim.operations.doctor.box_checks import CHECKS
from seriatim.operations.grants import grant, revoke
from seriatim.pipeline.types.schedule import Schedule
from seriatim.runtime.processes.serve import ScheduleClock, Serve
from tests.box.shop import rows
from tests.databases import box_with

BY = {"actor": "ann", "reason": "ticket 4711"}
DAY = timedelta(days=1)


def prepared(box):
    box.define(
        sq.MessageType("report", properties={"due": "timestamp", "what": "string", "n": "long"}),
        sq.Queue("reports", policy=sq.Unordered()),
        sq.Subscription("reports", where="type = 'report'", to="reports"),
    )


box = box_with(prepared)


def daily(name="daily", **given):
    return sq.Schedule(name, cron="0 0 * * *", type="report", **{"due_property": "due", "catch_up": "all"} | given)


def midnight():
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def let_pass(box, days, name="daily"):
    """So much time has passed since a due time."""
    first = midnight() - days * DAY + DAY
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.schedules SET next_at = %s WHERE schedule = %s", [first, name])
    return first


def defined(box):
    with box.access.transaction() as transaction:
        return scheduled(transaction)


def published(box):
    return [one.message for one in box.peek("reports", limit=10_000)]


@pytest.mark.parametrize(
    ("cron", "timezone", "begin", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["03-29T01:00", "03-30T00:30"]),  # no 2:30: when it is 3:00
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25T00:30", "10-26T01:30"]),  # twice 2:30: the first
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30", ["10-26T01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10", ["10-26T01:30"]),
        ("0 6 * * MON-FRI", "UTC", "2026-11-27T06:00", ["11-30T06:00", "12-01T06:00"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00", ["10-25T00:30", "10-25T01:00", "10-25T01:30"]),
    ],
)
def test_due_times_where_the_clock_jumps(cron, timezone, begin, expected):
    found = Schedule("s", cron, "t", timezone=timezone).after(datetime.fromisoformat(f"{begin}+00:00"))
    assert [f"{one:%m-%dT%H:%M}" for one in islice(found, len(expected))] == expected


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"cron": "@daily"}, "is not cron text"),
        ({"cron": "* * * * * *"}, "is not cron text"),
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "0 0 31 2 *"}, "bad day-of-month"),
        ({"timezone": "Mars/Olympus"}, "is not a time zone here"),
        ({"timezone": "../../etc/passwd"}, "is not a time zone here"),
        ({"catch_up": "some"}, "catch_up can't be 'some'"),
        ({"context": {"message_id": "x"}}, "property 'message_id' can't be given"),
        ({"context": {"due": "x"}, "due_property": "due"}, "property 'due' can't be given"),
        ({"context": {"x": object()}}, "property 'x' can't be"),
        ({"type": ""}, "type can't be"),
        ({"body": 1}, "body can.t be 1"),
        ({"body": "\ud800"}, "body can't be"),
        ({"body": b"x" * 1_000_001}, "1,000,001 bytes"),
        ({"name": ""}, "schedule's name"),
    ],
)
def test_what_is_no_schedule(given, what):
    with pytest.raises(sq.UsageError, match=what):
        sq.Schedule(**{"name": "s", "cron": "0 6 * * *", "type": "t"} | given)


def test_it_is_defined_changed_and_dropped(box):
    one = daily(body=b"\0\xff", context={"what": "all", "n": 3}, content_type="text/plain")
    assert list(map(str, box.define(one))) == ["added schedule daily"]
    assert box.define(one) == []
    (found,) = schedules.schedules(box)
    assert (defined(box), found.state, found.last_at) == ({"daily": one}, "waiting", None)
    assert (found.cron, found.timezone, found.type, found.catch_up) == ("0 0 * * *", "UTC", "report", "all")
    assert timedelta() < found.next_at - datetime.now(UTC) <= DAY
    version = box.definitions().version
    first = let_pass(box, 1)
    assert list(map(str, box.define(daily(body=b"x")))) == ["changed schedule daily: body, context, content_type"]
    assert schedules.schedules(box)[0].next_at == first
    box.define(sq.Schedule("daily", cron="30 * * * *", type="report"))
    assert schedules.schedules(box)[0].next_at.minute == 30
    assert box.definitions().version == version  # nobody who publishes reads anything anew
    with pytest.raises(sq.UsageError, match="there is no schedule 'daly'") as told:
        box.drop(schedule="daly")
    assert told.value.remedy == "did you mean 'daily'?"
    assert list(map(str, box.drop(schedule="daily"))) == ["dropped schedule daily"]
    assert schedules.schedules(box) == []


def test_in_the_box_file(box, tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(
        "settings: {unrouted: refuse}\n"
        "schedules:\n"
        "  nightly:\n"
        "    cron: 0 6 * * *\n    type: report\n    timezone: Europe/Berlin\n    body: all of it\n"
        "    context: {what: all, n: 3, unique_key: nightly}\n    due_property: due\n    catch_up: none\n"
    )
    assert list(map(str, box.apply(file))) == ["added settings box", "added schedule nightly"]
    assert box.apply(file) == []
    one = sq.Schedule(
        "nightly", "0 6 * * *", "report", timezone="Europe/Berlin", body=b"all of it",
        context={"what": "all", "n": 3, "unique_key": "nightly"}, due_property="due", catch_up="none",
    )  # fmt: skip
    assert defined(box) == {"nightly": one}
    file.write_text(
        "settings: {unrouted: drop}\nschedules: {s: {cron: 0 6 * *, type: report}, t: {type: x, corn: 1}}\n"
    )
    with pytest.raises(sq.DeclarationError) as told:
        box.apply(file)
    for what in ("box.yaml:1:22", "unrouted can't be 'drop'", "box.yaml:2:", "'0 6 * *' is not cron text",
                 "schedules.t.cron is missing", "unknown key 'corn'"):  # fmt: skip
        assert what in str(told.value)
    file.write_text("types: {report: {properties: {due: timestamp, what: string, n: long}}}\n")
    gone = {str(one) for one in box.apply(file, prune=True, dry_run=True)}
    assert {"dropped settings box", "dropped schedule nightly"} < gone


def test_each_due_time_gives_one_message(box):
    box.define(daily(context={"what": "all"}))
    first = let_pass(box, 3)
    with ThreadPoolExecutor(6) as threads:
        done = [threads.submit(publish_due, box.access) for _ in range(12)]
        assert sum(one.result().published for one in done) == 3
    found = published(box)
    assert [one.context["due"] for one in found] == [first, first + DAY, first + 2 * DAY]
    assert {one.context["what"] for one in found} == {"all"}
    assert found[0].message_id == f"schedule daily {first:%Y-%m-%dT%H:%M:%SZ}"
    (seen,) = schedules.schedules(box)
    assert (seen.last_at, seen.last_message, seen.published) == (first + 2 * DAY, found[-1].message_id, 3)
    assert seen.next_at == first + 3 * DAY
    assert 0 < publish_due(box.access).next_s <= DAY.total_seconds()
    # Even if its time is set back, or it is defined anew.
    let_pass(box, 3)
    assert box.tick().scheduled == 0
    assert len(published(box)) == 3


@pytest.mark.parametrize(
    ("catch_up", "days", "expected"), [("one", 15_000, [14_999]), ("none", 15_000, []), ("all", 2_000, range(2_000))]
)
def test_after_a_downtime(box, catch_up, days, expected):
    """For so many days nobody was there; for `none` the last of them is long ago, too."""
    if catch_up == "none" and datetime.now(UTC) - DAY / 480 < midnight():
        pytest.skip("a day has just begun, which is no downtime")
    box.define(daily(catch_up=catch_up))
    first = let_pass(box, days)
    box.tick()
    assert [one.context["due"] for one in published(box)] == [first + n * DAY for n in expected]
    assert schedules.schedules(box)[0].next_at > datetime.now(UTC)


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda policy: policy.name)
def test_as_many_due_times_are_published_as_the_queue_has_room_for(box, policy):
    group = None if policy.name == "unordered" else "what"
    box.define(
        sq.Queue("few", policy, group=group, max_messages=10),
        sq.Subscription("few", where="what = 'few'", to="few"),
        daily(context={"what": "few"}),
    )
    first = let_pass(box, 25)
    for begin, end in ((0, 10), (10, 20), (20, 25)):
        assert box.tick().scheduled == end - begin
        (seen,) = schedules.schedules(box)
        assert seen.next_at == first + end * DAY
        assert seen.state == ("waiting" if end == 25 else "failed")
        assert (seen.error is None) if end == 25 else ("has room for 0" in seen.error)
        with box.session() as tx:
            assert [one.context["due"] for one in tx.receive("few", limit=30)] == [
                first + n * DAY for n in range(begin, end)
            ]
            tx.connection.execute(f"UPDATE {box.schema}.schedules SET look_at = NULL")


def test_none_publishes_what_is_due_now(box):
    box.define(daily(catch_up="none"))
    due = datetime.now(UTC) - timedelta(seconds=30)
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.schedules SET next_at = %s", [due])
    assert box.tick().scheduled == 1


def test_what_cant_be_published_is_told_and_tried_again(box, caplog):
    box.define(daily(context={"n": "many"}), daily("fine"))
    let_pass(box, 1)
    let_pass(box, 1, "fine")
    with caplog.at_level(logging.WARNING, "seriatim.serve"):
        assert box.tick().scheduled == 1
        assert box.tick().scheduled == 0
    (told,) = [one for one in caplog.messages if "'daily'" in one]
    assert "property n" in told
    failed = next(one for one in schedules.schedules(box) if one.schedule == "daily")
    assert (failed.state, "property n" in failed.error) == ("failed", True)
    finding = CHECKS["schedules"](box)
    assert "'daily' has published nothing since" in finding.found
    box.define(daily(context={"n": 3}))
    assert box.tick().scheduled == 1
    assert [one.state for one in schedules.schedules(box)] == ["waiting", "waiting"]


def test_one_that_waits_for_a_lock_stops_no_other(box):
    box.define(daily(context={"location": "crm"}), daily("other"))
    let_pass(box, 2)
    let_pass(box, 1, "other")
    with sq.MessageBox.open(f"{box.dsn}&options=-clock_timeout%3D50ms", schema=box.schema) as serving:
        with box.session() as tx:
            tx.dispense("crm")
            assert serving.tick().scheduled == 1
            assert serving.tick().scheduled == 0  # it is looked at a minute later
        assert [one.message_id.split()[1] for one in published(box)] == ["other"]
        failed, other = schedules.schedules(box)
        assert (failed.state, other.state) == ("failed", "waiting")
        assert 'the lock on the location "crm"' in failed.error
        with box.session() as tx:
            tx.connection.execute(f"UPDATE {box.schema}.schedules SET look_at = NULL")
        assert serving.tick().scheduled == 2
    assert {one.state for one in schedules.schedules(box)} == {"waiting"}


def test_nobody_publishes(box):
    box.define(daily())
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.schedules SET next_at = now() - interval '4 minutes'")
    assert [one.state for one in schedules.schedules(box)] == ["overdue"]
    finding = CHECKS["schedules"](box)
    assert "start seriatim serve" in finding.remedy


def test_a_due_time_whose_message_still_waits_adds_none(box):
    box.define(daily(context={"unique_key": "daily"}))
    let_pass(box, 1)
    assert box.tick().scheduled == 1
    (one,) = published(box)
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.schedules SET next_at = now()")
    assert box.tick().scheduled == 0
    assert published(box) == [one]
    assert schedules.schedules(box)[0].last_message == one.message_id


def test_paused_and_resumed(box):
    box.define(daily(), daily("other"))
    assert schedules.pause(box, "daily", **BY) == ["daily"]
    assert schedules.pause(box, "daily", "other", **BY) == ["other"]
    let_pass(box, 5)
    assert box.tick().scheduled == 0
    (seen, _) = schedules.schedules(box)
    assert (seen.state, seen.paused_by, seen.next_at) == ("paused", "ann", None)
    box.define(daily(body=b"x"))
    assert schedules.schedules(box)[0].state == "paused"
    assert schedules.resume(box, "daily", **BY) == ["daily"]
    assert box.tick().scheduled == 0
    assert schedules.schedules(box)[0].next_at > datetime.now(UTC)
    with pytest.raises(sq.UsageError, match="there is no schedule 'x'"):
        schedules.pause(box, "daily", "x", **BY)
    logged = rows(box, "SELECT action, details ->> 'schedule' FROM {schema}.operator_log ORDER BY operation_id")
    assert logged == [("pause schedule", "daily"), ("pause schedule", "other"), ("resume schedule", "daily")]


def test_serve_publishes(box):
    box.define(daily())
    let_pass(box, 2)
    serve = Serve(box)
    serving = threading.Thread(target=serve.run)
    serving.start()
    try:
        with box.session() as tx:
            assert len(list(tx.receive("reports", limit=2, wait=30))) >= 1
    finally:
        serve.stop()
        serving.join()
    assert schedules.schedules(box)[0].published == 2


def test_serve_looks_by_itself(box):
    box.define(daily())
    let_pass(box, 2)
    clock = ScheduleClock(box)
    clock.look()
    clock.look()
    clock.end()
    assert len(published(box)) == 2


def test_one_that_cant_be_read_stops_no_other(box):
    box.define(daily(), daily("other"))
    let_pass(box, 1)
    let_pass(box, 1, "other")
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.schedules SET definition = '{{}}' WHERE schedule = 'daily'")
    assert box.tick().scheduled == 1
    assert [one.state for one in schedules.schedules(box)] == ["failed", "waiting"]
    assert box.drop(schedule="daily")


def test_a_role_leaves_them_to_the_owner(box):
    role = f"scheduled_{box.schema}"
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
    try:
        grant(box, role, receive=["reports"], route=True)
        box.define(daily())
        let_pass(box, 1)
        with sq.MessageBox.open(psycopg.conninfo.make_conninfo(box.dsn, user=role), schema=box.schema) as theirs:
            assert theirs.tick().scheduled == 0
            clock = ScheduleClock(theirs)
            clock.look()
            clock.end()
        assert published(box) == []
    finally:
        revoke(box, role)
        with psycopg.connect(box.dsn, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_by_the_command_line(box):
    def call(*words, code=0):
        result = CliRunner().invoke(main, [*words, "--dsn", box.dsn, "--schema", box.schema])
        assert result.exit_code == code, result.output
        return result.output

    assert call("schedules") == "there are no schedules\n"
    box.define(daily(context={"what": "all"}))
    first = let_pass(box, 1)
    assert "published 1 of schedules" in call("box", "tick")
    titles, line = call("schedules").splitlines()
    assert titles.split() == [
        "schedule",
        "state",
        "cron",
        "time",
        "zone",
        "next",
        "last",
        "last",
        "message",
        "published",
    ]
    assert line.split()[:2] == ["daily", "waiting"]
    (found,) = json.loads(call("schedules", "--json"))
    assert (found["last_at"], found["published"], found["type"]) == (first.isoformat(), 1, "report")
    assert call("schedule", "pause", "daily", "--reason", "x", "--actor", "ann") == "paused daily\n"
    assert "paused by" in call("schedules")
    assert call("schedule", "resume", "daily", "--reason", "x", "--actor", "ann") == "resumed daily\n"
    assert call("schedule", "resume", "daily", "--reason", "x", "--actor", "ann") == "nothing to change\n"


def test_a_schedule_of_an_unknown_type_is_refused(box, tmp_path):
    with pytest.raises(sq.NotFound) as told:
        box.define(daily(), sq.Schedule("s", "0 6 * * *", "reprot"))
    assert str(told.value) == "schedule 's': there is no message type 'reprot' (did you mean 'report'?)"
    assert defined(box) == {}
    box.define(sq.Schedule("s", "0 6 * * *", "new"), sq.MessageType("new"))
    with pytest.raises(sq.ActionRefused, match="type 'new' can't be dropped: schedule 's' publishes it"):
        box.drop(type="new")
    file = tmp_path / "box.yaml"
    file.write_text("schedules: {t: {cron: 0 6 * * *, type: reprot}}\n")
    with pytest.raises(sq.DeclarationError) as told:
        box.apply(file)
    assert str(told.value).endswith(
        ":1:40: schedules.t.type: there is no message type 'reprot', neither here nor in the box (did you mean 'report'?)"
    )
    assert len(box.drop(type="new", schedule="s")) == 2
