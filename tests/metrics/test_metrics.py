"""The metrics: every one of the list is told, with the values that the box and the processes have, and no other."""

from __future__ import annotations

import re
import threading
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import seriatim as sq
from seriatim.box.measures import MEASURES, Measure
from seriatim.metrics import box_reading
from seriatim.metrics.box_reading import BoxReading
from seriatim.metrics.catalogue import BOX, METRICS, RUN, MetricKind
from seriatim.metrics.collector import Collector
from seriatim.metrics.health import readiness
from seriatim.metrics.run_watch import RunWatch
from seriatim.metrics.watched import Watched
from seriatim.operations import groups
from seriatim.operations.figures import figures
from seriatim.spark.control.lease_state import LeaseState
from tests.databases import box_with


def defined(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version", max_messages=9),
        sq.Subscription("orders", where="TRUE", to="orders"),
    )


box = box_with(defined)


def order(customer, version, **more):
    return sq.Message(type="order", context={"customer": customer, "version": version}, **more)


def scraped(collector):
    """The samples, by name and labels; and the families."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    labels = {one.name: one.labels for one in METRICS}
    found = {}
    for family in families:
        names = labels.get(family.name, labels.get(f"{family.name}_total"))
        found |= {
            (one.name, *(one.labels[name] for name in names)): one.value
            for one in family.samples
            if "le" not in one.labels
        }
    return found, families


@pytest.mark.parametrize("metric", METRICS, ids=lambda one: one.name)
def test_a_name_says_what_it_is(metric):
    assert re.fullmatch(r"seriatim_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    if metric.unit == "seconds":
        assert metric.name.endswith("_seconds")
    assert metric.help
    assert not metric.help.endswith(".")
    # Few values each: never a group, a message or an error.
    assert set(metric.labels) <= {
        "queue", "state", "disposition", "kind", "outcome", "location", "table", "pipeline", "destination", "region", "service",
        "port", "partition", "link",
    }  # fmt: skip


def test_no_name_is_there_twice_and_every_measure_is_told():
    assert len({one.name for one in METRICS}) == len(METRICS)
    assert {one.of for one in METRICS} >= set(Measure)


def test_voids_that_are_set_aside_are_told(box):
    box.define(
        sq.Queue("notes", sq.Unordered(), sequence=sq.Sequence("version", void="version = 0")),
        sq.Subscription("notes", where="TRUE", to="notes"),
    )
    box.publish([order("c1", 0), order("c1", 1)])
    found, _ = scraped(Collector(box=BoxReading(lambda: box, closes=False), watched=Watched(["notes"])))
    assert found["seriatim_set_aside_messages", "notes", "void"] == 1


def test_a_box_and_its_worker_are_told(box):
    handled = []

    def handle(message, tx):
        handled.append(message)
        if message.context["version"] == 7:
            raise sq.Business("no")

    with box.session() as tx:
        tx.publish([order("c1", 1), order("c1", 2), order("c1", 4), order("c2", 1), order("c2", 1), order("c3", 7)])
    before = scraped(Collector(watched=Watched(["orders"])))[0]
    worker = sq.Worker(box, "orders", handle, workers=1)
    worker.run(until_idle=True)
    collector = Collector(box=BoxReading(lambda: box, closes=False), watched=Watched(["orders"]))
    found, families = scraped(collector)

    def more(*key):
        return found[key] - before.get(key, 0)

    assert found["seriatim_up",] == 1
    assert found["seriatim_messages", "orders", "held"] == 2
    assert found["seriatim_groups", "orders", "waiting"] == 2
    assert found["seriatim_holes", "orders"] == 2
    assert found["seriatim_set_aside_messages", "orders", "duplicate"] == 1
    assert found["seriatim_queue_limit_messages", "orders"] == 9
    assert found["seriatim_published_total", "box"] == 6
    assert more("seriatim_released_total", "orders") == len(handled) == 3
    assert more("seriatim_handled_total", "orders") == 3
    assert more("seriatim_set_aside_total", "orders", "duplicate") == 1
    assert more("seriatim_process_seconds_count", "orders", "done") == 3
    assert more("seriatim_wait_seconds_count", "orders") == 3
    assert found["seriatim_last_look_seconds", "orders"] >= 0
    names = {one.name for one in families}
    expected = {one.name.removesuffix("_total") for one in METRICS if one not in RUN}
    assert names <= expected
    # What there is nothing of is named all the same, so that rules can be written.
    assert expected == names
    groups.suspend(box, "orders", "c2", actor="me", reason="test")
    with box.session() as tx:
        tx.publish([order("c9", 1)])
    assert {one.figure for one in figures(box)} == {one.of for one in BOX} - {
        "dialogs",
        "dialog_seconds",
        "port_up",
        "unanswered_dialogs",
        "unanswered_seconds",
    }  # it has none
    with box.session() as tx:
        tx.publish([order("c1", 3)])
    sq.Worker(box, "orders", handle, workers=1).run(until_idle=True)
    after, _ = scraped(collector)
    assert after["seriatim_hold_seconds_count", "orders"] >= 1


def test_faults_are_counted_when_they_are_committed(box):
    before = MEASURES.snapshot().counts

    def handle(message, tx):
        raise sq.Business("no")

    with box.session() as tx:
        tx.publish([order("c1", 1)])
    sq.Worker(box, "orders", handle, workers=1).run(until_idle=True)
    after = MEASURES.snapshot().counts
    kinds = {key[2] for key in after if key[:2] == ("faults", "orders") and after[key] > before.get(key, 0)}
    assert len(kinds) == 1


def test_a_box_that_is_away_is_told_with_what_the_process_knows(box):
    def away():
        raise sq.Unavailable("the server is away")

    watched = Watched(["orders"])
    MEASURES.looked("orders")
    reading = BoxReading(away)
    found, families = scraped(Collector(box=reading, watched=watched))
    assert found["seriatim_up",] == 0
    assert found["seriatim_turns", "orders"] == 0
    assert not {one.name for one in families} & {one.name for one in BOX}
    ready = readiness(box=reading, watched=watched)
    assert not ready.is_ready
    assert "the server is away" in ready.reasons[0]


def test_scrapes_share_one_statement(box, monkeypatch):
    monkeypatch.setattr(box_reading, "_KEPT_S", 600.0)
    asked = []

    def opened():
        asked.append(1)
        return box

    reading = BoxReading(opened, closes=False)
    threads = [threading.Thread(target=reading.now) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert reading.now().figures is not None
    reading._audit.join()  # which tells when it is over
    assert reading.now() == reading.now()
    assert len(asked) == 1


def test_the_laws_are_audited_beside_a_scrape(box):
    reading = BoxReading(lambda: box, closes=False)
    reading.now()
    reading._audit.join()
    found, _ = scraped(Collector(box=reading))
    assert found["seriatim_law_broken",] == 0
    assert found["seriatim_law_audited_timestamp_seconds",] > 0


def test_a_disabled_box_and_a_worker_that_does_not_look_are_not_ready(box):
    watched = Watched(["nobody looks here"])
    assert readiness(watched=watched).reasons == ["nobody has looked for work in queue 'nobody looks here' yet"]
    late = Watched(looked=lambda: time.monotonic() - 60)
    assert readiness(watched=late).reasons == ["it hasn't looked for anything to do lately"]
    assert readiness(watched=Watched(looked=time.monotonic)).is_ready


def test_a_run_is_told():
    from types import SimpleNamespace as Given

    watch = RunWatch("orders")
    assert watch.late() == ["the query hasn't begun yet"]
    watch.looked()
    counts = dict.fromkeys(("late", "duplicate", "copy", "void", "invalid", "rejected", "dead"), 0)
    account = Given(destination="a", held=2, arrived=5, released=3, **counts)
    waiting = Given(destination="b", rows=7, batches=1, since="", reason="refused", stands_by=False)
    watch.lease(LeaseState("active", "a"))
    watch.report(Given(seconds=0.2, accounts=[account], holes=1, behind=40, waiting=[waiting]))
    found, families = scraped(Collector(run=watch))
    assert found["seriatim_run_rows_total", "a", "released"] == 3
    assert found["seriatim_run_held_messages", "a"] == 2
    assert found["seriatim_run_waiting_rows", "b"] == 7
    assert found["seriatim_run_waiting_rows", "a"] == 0
    assert (found["seriatim_run_port_failing", "a"], found["seriatim_run_port_failing", "b"]) == (0, 1)
    assert found["seriatim_run_behind_records",] == 40
    assert found["seriatim_run_batch_seconds_count", "orders"] == 1
    assert {one.name for one in families} == {one.name.removesuffix("_total") for one in RUN}
    assert found["seriatim_run_delivers", "orders", "a"] == 1
    # A run that stands by waits for its lease; its ports don't fail.
    watch.ports([Given(destination="b", rows=7, reason="passive", stands_by=True)])
    watch.lease(LeaseState("passive", "a", "b"))
    found, _ = scraped(Collector(run=watch))
    assert (found["seriatim_run_port_failing", "b"], found["seriatim_run_waiting_rows", "b"]) == (0, 7)
    assert found["seriatim_run_delivers", "orders", "a"] == 0
    assert readiness(run=watch).is_ready
