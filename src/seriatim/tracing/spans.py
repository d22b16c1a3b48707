"""The spans: `receive` for a turn; `process` for a call of a handler; `settle` until its transaction has ended.

A message that is handled for the first time goes on in the trace of its publisher. A retry, a batch, and what waited behind a hole have
another cause than their publisher: their spans are in the trace of the turn, and have links to the traces of their messages, and of the
message that filled the hole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Self

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from seriatim.box.traces import TRACES, TurnTrace
from seriatim.errors import Postpone
from seriatim.pipeline.types.box_properties import TRACE
from seriatim.pipeline.types.message import Received

_PROPAGATOR = TraceContextTextMapPropagator()
#: The most links of a span of many messages.
_MOST_LINKS = 128


def install() -> None:
    """Trace the messages that this process publishes and handles, by the tracer provider that OpenTelemetry knows."""
    TRACES.tracing = Spans()


class Spans:
    def published(self, queue: str | None = None) -> Mapping[str, str]:
        """`traceparent`, and perhaps `tracestate`, of the current span; empty without one."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier

    def turn(self, queue: str) -> TurnTrace:
        """Return the spans of a turn that begins now."""
        return TurnSpans(queue)


class TurnSpans:
    """The spans of the turns of one transaction, or of one lease.

    Args:
        queue: the queue's name.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._tracer = trace.get_tracer("seriatim")
        self._receive: Span | None = None
        self._settle: Span | None = None
        self._behind: Mapping[str, Received] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for span in (self._settle, self._receive):
                if span is not None:
                    span.record_exception(error)
                    span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        self._end()

    def received(self, messages: Sequence[Received]) -> None:
        """Begin the span of a turn."""
        self._end()
        self._behind = held_behind(messages)
        links = [link for message in messages[:_MOST_LINKS] if (link := _link(message)) is not None]
        self._receive = self._tracer.start_span(
            f"receive {self._queue}", Context(), SpanKind.CONSUMER, self._attributes("receive", messages), links
        )

    def process(self, messages: Sequence[Received]) -> AbstractContextManager[object]:
        """Trace the call of a handler: its span is the current one, so the handler's own spans are below it."""
        return self._processed(messages)

    def settles(self) -> None:
        """Begin the span in which messages are completed."""
        if self._settle is not None:
            self._settle.end()
        context = Context() if self._receive is None else trace.set_span_in_context(self._receive, Context())
        self._settle = self._tracer.start_span(
            f"settle {self._queue}", context, SpanKind.CLIENT, self._attributes("settle", ())
        )

    @contextmanager
    def _processed(self, messages: Sequence[Received]) -> Iterator[Span]:
        if self._settle is not None:  # the former messages are settled
            self._settle.end()
            self._settle = None
        first = messages[0]
        behind = [cause for message in messages if (cause := self._behind.get(message.message_id)) is not None]
        goes_on = len(messages) == 1 and first.attempt == 1 and not behind and _link(first) is not None
        turn = Context() if self._receive is None else trace.set_span_in_context(self._receive, Context())
        context = _PROPAGATOR.extract(_carrier(first), Context()) if goes_on else turn
        linked = [] if goes_on else [*messages, *{message.message_id: message for message in behind}.values()]
        links = [link for message in linked[:_MOST_LINKS] if (link := _link(message)) is not None]
        if goes_on and self._receive is not None:
            links.append(Link(self._receive.get_span_context()))
        attributes = self._attributes("process", messages)
        if len(messages) == 1:
            attributes |= {"messaging.message.id": first.message_id, "seriatim.attempt": first.attempt}
        if behind:
            attributes["seriatim.held_behind"] = behind[0].message_id
        with self._tracer.start_as_current_span(
            f"process {self._queue}", context, SpanKind.CONSUMER, attributes, links, record_exception=False,
            set_status_on_exception=False,
        ) as span:  # fmt: skip
            try:
                yield span
            except Postpone:
                span.set_attribute("seriatim.postponed", True)
                raise
            except BaseException as error:
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                span.set_attribute("error.type", type(error).__name__)
                raise

    def _attributes(self, operation: str, messages: Sequence[Received]) -> dict[str, str | int | bool]:
        attributes: dict[str, str | int | bool] = {
            "messaging.system": "seriatim",
            "messaging.destination.name": self._queue,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
        }
        if messages:
            attributes["messaging.batch.message_count"] = len(messages)
            if messages[0].group is not None:
                attributes["seriatim.group"] = messages[0].group
        return attributes

    def _end(self) -> None:
        for span in (self._settle, self._receive):
            if span is not None:
                span.end()
        self._settle = self._receive = None


def held_behind(messages: Sequence[Received]) -> dict[str, Received]:
    """Return the messages of a turn that waited behind a missing number, by id, and the message that came and filled it.

    That is a message which came later, by its ticket at the same location, and left earlier.
    """
    causes: dict[str, Received] = {}
    latest: dict[str, Received] = {}
    for message in messages:
        last = latest.get(message.ticket.location)
        if last is not None and last.ticket > message.ticket and not message.late:
            causes[message.message_id] = last
        else:
            latest[message.ticket.location] = message
    return causes


def _carrier(message: Received) -> dict[str, str]:
    return {name: value for name in TRACE if isinstance(value := message.context.get(name), str)}


def _link(message: Received) -> Link | None:
    """Return a link to the trace of a message; None: it has none, or an invalid one."""
    if not isinstance(message.context.get("traceparent"), str):
        return None
    span = trace.get_current_span(_PROPAGATOR.extract(_carrier(message), Context())).get_span_context()
    return Link(span) if span.is_valid else None
