"""Traces: who published, which turn, which handler; and links where the publisher isn't the cause."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import seriatim as sq
from seriatim.box.traces import TRACES
from seriatim.tracing import install
from tests.databases import box_with

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def defined(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version", retry=sq.Retry(delay="0s")),
        sq.Queue("next", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="version < 100", to="orders"),
        sq.Subscription("next", where="version >= 100", to="next"),
    )


box = box_with(defined)


@pytest.fixture(scope="module")
def exporter():
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def spans(exporter):
    """The finished spans of a name, in order."""
    exporter.clear()
    install()
    yield lambda name: [one for one in exporter.get_finished_spans() if one.name.startswith(name)]
    TRACES.tracing = None


def order(version, customer="c1", **context):
    return sq.Message(type="order", context={"customer": customer, "version": version, **context})


def published(box, *messages):
    """Publishes each in a span of its own; the contexts of these."""
    found = []
    for one in messages:
        with trace.get_tracer("test").start_as_current_span("publish") as span:
            found.append(span.get_span_context())
        with trace.use_span(trace.NonRecordingSpan(found[-1])), box.session() as tx:
            tx.publish(one)
    return found


def work(box, handle, queue="orders", **options):
    sq.Worker(box, queue, handle, workers=1, **options).run(until_idle=True)


def linked(span):
    return {one.context.span_id for one in span.links}


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_handler_goes_on_in_the_trace_of_the_publisher(box, spans, mode):
    (publisher,) = published(box, order(1))

    def handle(message, tx):
        assert message.context["traceparent"].split("-")[2] == f"{publisher.span_id:016x}"
        return order(100)

    work(box, handle, mode=mode)
    (received,), (processed,), (settled,) = spans("receive"), spans("process"), spans("settle")
    assert processed.parent.span_id == publisher.span_id
    assert processed.context.trace_id == publisher.trace_id
    assert linked(received) == {publisher.span_id}
    assert linked(processed) == {received.context.span_id}
    assert settled.parent.span_id == received.context.span_id
    assert received.parent is None
    assert processed.end_time <= settled.start_time <= settled.end_time <= received.end_time
    assert processed.attributes["messaging.destination.name"] == "orders"
    # What the handler published is below its span.
    seen = []
    work(box, lambda message, tx: seen.append(message.context["traceparent"]), "next", mode=mode)
    assert [one.split("-")[2] for one in seen] == [f"{processed.context.span_id:016x}"]


def test_answers_that_are_published_together_go_on_in_the_traces_of_their_own_messages(box, spans):
    published(box, *(order(version) for version in (1, 2, 3, 4)))

    def handle(message, tx):
        if message.sequence == 3:
            tx.publish(order(200))  # and before it, in this span, what was returned for the first two
        return order(100 + message.sequence)

    work(box, handle)
    of = {one.attributes["messaging.message.id"]: f"{one.context.span_id:016x}" for one in spans("process")}
    by_version, seen = list(of.values()), []
    work(box, lambda message, tx: seen.append((message.context["version"], message.context["traceparent"])), "next")
    found = [(version, trace.split("-")[2]) for version, trace in seen]
    one, two, three, four = by_version
    assert found == [(101, one), (102, two), (200, three), (103, three), (104, four)]


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_retry_is_linked(box, spans, mode):
    (publisher,) = published(box, order(1))

    def handle(message, tx):
        if message.attempt == 1:
            raise ConnectionError("not now")

    work(box, handle, mode=mode)
    first, second = spans("process")
    assert first.parent.span_id == publisher.span_id
    assert first.status.status_code is trace.StatusCode.ERROR
    assert first.attributes["error.type"] == "ConnectionError"
    assert first.events[0].name == "exception"
    assert second.parent.span_id != publisher.span_id
    assert second.parent.span_id in {one.context.span_id for one in spans("receive")}
    assert linked(second) == {publisher.span_id}
    assert second.attributes["seriatim.attempt"] == 2
    assert second.status.status_code is not trace.StatusCode.ERROR


def test_what_waited_behind_a_hole_is_linked_to_what_filled_it(box, spans):
    one, three = published(box, order(1), order(3))
    work(box, lambda message, tx: None)
    (two,) = published(box, order(2))
    work(box, lambda message, tx: None)
    by_version = spans("process")
    assert [span.parent.span_id for span in by_version[:2]] == [one.span_id, two.span_id]
    held = by_version[2]
    assert held.parent.span_id not in {one.span_id, two.span_id, three.span_id}
    assert linked(held) == {three.span_id, two.span_id}
    assert held.attributes["seriatim.held_behind"] == by_version[1].attributes["messaging.message.id"]


def test_a_batch_is_linked_to_all_of_its_messages(box, spans):
    publishers = published(box, order(1), order(2))
    work(box, lambda delivery, tx: None, batch=True)
    (processed,) = spans("process")
    assert linked(processed) == {one.span_id for one in publishers}
    assert processed.attributes["messaging.batch.message_count"] == 2


def test_a_trace_that_is_given_stays(box, spans):
    published(box, order(1, traceparent=PARENT))
    work(box, lambda message, tx: None)
    (processed,) = spans("process")
    assert f"{processed.context.trace_id:032x}" == PARENT.split("-")[1]


@pytest.mark.parametrize("nonsense", ["", "x" * 1000, "00-0-0-00", "\u2028", "ff-" + PARENT[3:]])
def test_what_is_no_trace_is_no_problem(box, spans, nonsense):
    seen = []
    published(box, order(1, traceparent=nonsense))
    work(box, lambda message, tx: seen.append(message.context["traceparent"]))
    assert seen == [nonsense]
    assert len(spans("process")) == 1


def test_a_postponed_message_is_no_error(box, spans):
    published(box, order(1))

    def handle(message, tx):
        raise sq.Postpone("1h")

    work(box, handle)
    (processed,) = spans("process")
    assert processed.attributes["seriatim.postponed"] is True
    assert processed.status.status_code is not trace.StatusCode.ERROR


def test_without_tracing_a_message_has_no_trace_and_may_have_one(box):
    seen = []
    with box.session() as tx:
        tx.publish([order(1), order(2, traceparent=PARENT, tracestate="a=b")])
    work(
        box,
        lambda message, tx: seen.append({name: value for name, value in message.context.items() if "trace" in name}),
    )
    assert seen == [{}, {"traceparent": PARENT, "tracestate": "a=b"}]


def test_a_type_may_declare_these_names(box):
    box.define(
        sq.MessageType("old", properties={"traceparent": "string"}),
        sq.Subscription("old", where="traceparent = 'x'", to="next"),
    )
    assert box.definitions().types["old"].types() == {"traceparent": "string"}
