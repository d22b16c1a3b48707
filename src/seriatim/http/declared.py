"""The operations over HTTP, as values: their paths, parameters, bodies and answers.

The application finds its handlers and checks requests by them, and `openapi.py` writes them as a document: nothing is said twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from seriatim.kernel.operators.fault import FaultKind

#: Media types of CloudEvents in JSON.
EVENT_TYPE, BATCH_TYPE = "application/cloudevents+json", "application/cloudevents-batch+json"
#: The most bytes of a request; of the bodies of a delivery; of one body within its answer.
LARGEST_BODY, MOST_BYTES, LARGEST_INLINE = 8 * 2**20, 8 * 2**20, 2**20
#: The longest that a request waits, seconds.
LONGEST_WAIT_S = 60

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    where: Literal["query", "path", "header"]
    told: str
    schema: Schema = field(default_factory=lambda: {"type": "string", "minLength": 1, "maxLength": 1024})
    #: Whether it is a period, which the application gets in seconds.
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    told: str
    #: The right that a token needs for the queue, or for any; None: any right.
    right: Literal["publish", "receive"] | None
    #: The answers by status: what each tells, and its schema, a schema's name or None without a body.
    answers: Mapping[int, tuple[str, str | None]]
    parameters: tuple[Parameter, ...] = ()
    #: The schema of the body by media type; None: any bytes.
    bodies: Mapping[str, str | None] = field(default_factory=dict)


_TEXT: Schema = {"type": "string"}
_TIME: Schema = {"type": "string", "pattern": r"^\d{1,12}(\.\d{1,9})?(us|ms|s|m|h|d)?$", "examples": ["20", "30s"]}
_PERIOD: Schema = {
    "oneOf": [{"type": "number", "minimum": 0, "maximum": 864_000_000}, dict(_TIME)],
    "description": "seconds, or a text such as 30s",
}
_WHEN: Schema = {"type": "string", "format": "date-time"}
_POSITION: Schema = {"type": "integer", "minimum": 1, "maximum": 1_000_000}


def _object(told: str, required: tuple[str, ...], **properties: Schema) -> Schema:
    return {
        "type": "object", "description": told, "properties": properties, "required": list(required),
        "additionalProperties": False,
    }  # fmt: skip


def _wish(told: str, required: tuple[str, ...], **properties: Schema) -> Schema:
    """An object that callers send. What is null counts as left out: many programs write every member."""
    takes_any = {name for name, one in properties.items() if one.keys() <= {"description"}}
    as_is = {*required, *takes_any}
    return _object(
        told, required, **{name: one if name in as_is else _or_null(one) for name, one in properties.items()}
    )


def _of(schema: str) -> Schema:
    return {"$ref": f"#/components/schemas/{schema}"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: Schema, **limits: int) -> Schema:
    return {"type": "array", "items": schema, **limits}


def _told(schema: Schema, told: str) -> Schema:
    return {**schema, "description": told}


#: Of an event only what the box reads: attributes of extensions are allowed by the specification.
_EVENT: Schema = {
    "type": "object",
    "description": "An event of CloudEvents 1.0 in JSON.",
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1, "maxLength": 1024},
        "source": {"type": "string", "minLength": 1, "maxLength": 2048},
        "type": {"type": "string", "minLength": 1, "maxLength": 1024},
        "datacontenttype": {"type": ["string", "null"]},
        "dataschema": {"type": ["string", "null"]},
        "subject": {"type": ["string", "null"]},
        "time": _or_null(_WHEN),
        "data": {},
        "data_base64": {"type": ["string", "null"], "contentEncoding": "base64"},
    },
    "required": ["specversion", "id", "source", "type"],
    "additionalProperties": {"type": ["string", "integer", "boolean", "null"]},
}

_MESSAGE: Mapping[str, Schema] = {
    "type": {"type": "string", "minLength": 1, "maxLength": 1024},
    "message_id": {"type": "string", "minLength": 1, "maxLength": 1024},
    "context": {
        "type": "object",
        "description": "Its properties.",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    },
    "body": _told({}, "A text is the body itself; any other value, null too, is its JSON."),
    "body_base64": {"type": "string", "contentEncoding": "base64", "description": "In place of `body`: any bytes."},
    "content_type": {"type": "string", "minLength": 1, "maxLength": 1024},
}

SCHEMAS: Mapping[str, Schema] = {
    "Event": _EVENT,
    "Bytes": {"type": "string", "contentMediaType": "application/octet-stream"},
    "Events": _list(_of("Event"), maxItems=10_000),
    "Message": _wish(
        "A message in plain JSON, with the names of seriatim's own class.",
        ("type",),
        **_MESSAGE,
    ),
    "MessageOrMessages": {"oneOf": [_of("Message"), _list(_of("Message"), maxItems=10_000)]},
    "Taken": _object(
        "What became of a message.",
        ("id", "result", "queues"),
        id=_told(_TEXT, "Its id: that of the event, the Idempotency-Key, or a new one."),
        result=_told(
            {"enum": ["new", "known", "unrouted", "waiting"]},
            "`known`: a message with this id was published before, and this one is left out; `waiting`: one with its unique key waits.",
        ),
        queues=_told(_list(_TEXT), "The queues that it goes to."),
        invalid=_told({"type": "object", "additionalProperties": _TEXT}, "Why it is invalid, by the name of the queue."),
        waiting=_told(_TEXT, "The id of the message that waits in its place."),
    ),
    "TakenAll": _object("What became of each message, in order.", ("messages",), messages=_list(_of("Taken"))),
    "Pending": _object(
        "A request that has no reply yet.",
        ("id", "message_id", "reply", "until"),
        id=_told(_TEXT, "Its id, under which its reply is fetched."),
        message_id=_told(_TEXT, "The id of the message."),
        reply=_told(_TEXT, "The type of the reply."),
        until=_told(_WHEN, "Until when the reply is kept."),
    ),
    "TakenAny": {"oneOf": [_of("Taken"), _of("TakenAll")]},
    "TakenOrReply": {"oneOf": [_of("Taken"), _of("TakenAll"), _of("Event")]},
    "TakenOrPending": {"oneOf": [_of("Taken"), _of("TakenAll"), _of("Pending")]},
    "MessageStatus": _object(
        "The state of a message.",
        ("message_id", "state", "queues"),
        message_id=_TEXT,
        state={"enum": ["waiting", "in_hand", "done", "set_aside", "dead", "unrouted", "unknown"]},
        reason=_TEXT,
        is_final={"type": "boolean"},
        forgotten={"type": "integer"},
        queues=_list(
            _object(
                "Its state in one queue.",
                ("queue", "state"),
                queue=_or_null(_TEXT),
                group=_or_null(_TEXT),
                state=_TEXT,
                reason=_TEXT,
                until=_or_null(_WHEN),
                since=_or_null(_WHEN),
                attempt={"type": "integer"},
            )
        ),
    ),
    "Wanted": _wish(
        "What a caller wants to receive.",
        (),
        limit={"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
        wait=_told(_PERIOD, f"How long to wait for messages, at most {LONGEST_WAIT_S} s."),
        lease=_told(_PERIOD, "How long the lease lasts, at most a day (default: 30s)."),
        group={"type": "string", "minLength": 1, "maxLength": 1024, "description": "Only this group."},
        attempt_id=_told(
            {"type": "string", "minLength": 1, "maxLength": 256},
            "An id of the attempt: asked again with it, the same delivery comes while its lease lasts.",
        ),
        max_bytes={"type": "integer", "minimum": 1, "maximum": MOST_BYTES, "default": MOST_BYTES},
    ),
    "Delivery": _object(
        "A run of one group under a lease.",
        ("delivery", "token", "until", "queue", "messages", "done"),
        delivery=_told(_TEXT, "The id of the lease."),
        token=_told({"type": "integer"}, "The fencing token, higher with every lease: for other systems."),
        until=_told(_WHEN, "When the lease runs out."),
        queue=_TEXT,
        group=_or_null(_TEXT),
        done=_told({"type": "integer"}, "How many messages are done already, from the first on."),
        messages=_list(
            {
                "allOf": [_of("Event")],
                "description": "Events in order. `context` is the text of a JSON object with all properties. Instead of data, "
                "a large body has `dataref`, the path from which it is fetched.",
                "properties": {
                    "position": _POSITION,
                    "ordinal": {"type": "integer"},
                    "attempt": {"type": "integer"},
                    "late": {"type": "boolean"},
                    "dataref": _TEXT,
                },
                "required": ["position", "attempt", "late"],
            }
        ),
    ),
    "Result": {
        "oneOf": [
            {"allOf": [_of("Event")], "required": ["specversion"]},
            _wish(
                "A message in plain JSON.",
                ("type",),
                position=_told(_POSITION, "The message that it results from, where several are completed at once."),
                **_MESSAGE,
            ),
        ]
    },
    "Complete": _wish(
        "Complete messages, and publish what results from them.",
        (),
        through=_told(_POSITION, "The position of the last message that is done; left out: all."),
        publish=_list(_of("Result"), maxItems=10_000),
    ),
    "Fail": _wish(
        "The failure of a message; the messages before it are completed.",
        ("at",),
        at=_POSITION,
        kind={"enum": [str(one) for one in FaultKind], "default": "unexpected"},
        error={"type": "string", "maxLength": 10_000},
        retry_after=_PERIOD,
    ),
    "Postpone": _object("A message that isn't for now.", ("at", "delay"), at=_POSITION, delay=_PERIOD),
    "DeadLetter": _object("A message that is set aside.", ("at", "reason"), at=_POSITION,
        reason={"type": "string", "minLength": 1, "maxLength": 10_000}),
    "Renew": _wish("How long the lease lasts from now on.", (), lease=_PERIOD),
    "Until": _object("When the lease runs out.", ("until",), until=_WHEN),
    "Done": _object(
        "What a call has done.",
        ("done", "over", "repeated"),
        done=_told({"type": "integer"}, "How many messages are done, from the first on."),
        over=_told({"type": "boolean"}, "Whether the lease has ended."),
        published=_told(_list(_TEXT), "The ids of the messages that were published."),
        left_out=_told(_list(_TEXT), "The ids of those that were published before."),
        then=_told(_or_null(_TEXT), "What a failure led to."),
        repeated=_told({"type": "boolean"}, "Whether the call had been made before."),
    ),
    "Problem": {
        **_object(
        "An error, as RFC 9457 has it.",
        ("type", "title", "status", "detail", "code"),
        type=_TEXT,
        title=_TEXT,
        status={"type": "integer"},
        detail=_TEXT,
        code=_told(_TEXT, "The stable code of the error, as in the reference of errors."),
        remedy=_TEXT,
    ),
        "additionalProperties": True,
    },
}  # fmt: skip

_ERRORS: Mapping[int, tuple[str, str | None]] = {
    400: ("The request can't be read.", "Problem"),
    401: ("There is no token, or it isn't valid.", "Problem"),
    403: ("The token, or its role, may not do this.", "Problem"),
    413: (f"The request has more than {LARGEST_BODY:,} bytes.", "Problem"),
    422: ("The request can be read, and has a mistake.", "Problem"),
    503: ("Not now: a queue is full, or PostgreSQL is away. `Retry-After` says when to try again.", "Problem"),
}
_WAIT = Parameter(
    "wait",
    "query",
    f"How long to wait, at most {LONGEST_WAIT_S} s: seconds, or a text such as 20s.",
    _TIME,
    is_time=True,
)

_PREFER = Parameter(
    "Prefer", "header", f"`wait=20`: how long to wait for a reply, in whole seconds, at most {LONGEST_WAIT_S}.",
    {"type": "string", "maxLength": 1024},
)  # fmt: skip


def _call(verb: str, told: str, body: str, answer: str = "Done") -> Operation:
    return Operation(
        verb, "POST", f"/v1/queues/{{queue}}/deliveries/{{id}}/{verb}", told, "receive",
        {200: ("Done; or it was done before by the same call.", answer), **_LEASE_ERRORS, **_ERRORS},
        (_QUEUE, _DELIVERY), {"application/json": body},
    )  # fmt: skip


_LEASE_ERRORS: Mapping[int, tuple[str, str | None]] = {
    404: ("There is no such queue, and no such delivery.", "Problem"),
    409: ("The position is done, by a call that said something else.", "Problem"),
    410: ("The lease is over: nothing was changed.", "Problem"),
    415: ("This media type isn't known.", "Problem"),
}
_QUEUE = Parameter("queue", "path", "The name of the queue.")
_DELIVERY = Parameter("id", "path", "The id of the delivery.")

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "publish",
        "POST",
        "/v1/messages",
        "Publish messages: an event of CloudEvents (binary, structured or a batch), or plain JSON. A batch is one transaction.",
        "publish",
        {
            200: (
                "All ids are there already: nothing was published. With `reply`: the reply; `Content-Location` says where it stays.",
                "TakenOrReply",
            ),
            201: ("Published.", "TakenAny"),
            202: (
                ("Kept as unrouted: no queue wants the message, or it doesn't fit its type. With `reply`: there is no reply yet; "
                "`Location` says where it will be."),
                "TakenOrPending",
            ),
            502: ("With `reply`: the request was set aside.", "Problem"),
            415: ("This media type isn't known.", "Problem"),
            **_ERRORS,
        },
        (
            Parameter("delay", "query", "Hand the messages out after this time: seconds, or a text such as 10m.", _TIME, is_time=True),
            Parameter("visible_at", "query", "Hand the messages out from this moment on, of RFC 3339.", _WHEN),
            Parameter("unique", "query", "Publish nothing if a message with this key waits in the queue."),
            Parameter("unrouted", "query", "What to do with messages that reach no queue.", {"enum": ["keep", "refuse"]}),
            Parameter("reply", "query", "The type of the message to wait for: the first one that belongs to this message."),
            _PREFER,
            Parameter(
                "Idempotency-Key", "header",
                "The id of a message that has none, in an id space of the token's own.",
                {"type": "string", "minLength": 1, "maxLength": 255},
            ),
        ),
        {EVENT_TYPE: "Event", BATCH_TYPE: "Events", "application/json": "MessageOrMessages"},
    ),
    Operation(
        "status",
        "GET",
        "/v1/messages/{id}",
        "See the state of a message in each queue that has it; with `wait` until it is final.",
        None,
        {
            200: ("Its state.", "MessageStatus"),
            404: ("There is no such message.", "Problem"),
            **{status: _ERRORS[status] for status in (400, 401, 403, 422, 503)},
        },
        (
            Parameter("id", "path", "The id of the message."),
            Parameter("source", "query", "The source of the event, if several have the id.",
                {"type": "string", "minLength": 1, "maxLength": 2048}),
            _WAIT,
        ),
    ),
    Operation(
        "reply",
        "GET",
        "/v1/replies/{id}",
        "Wait for the reply to a request of this token; later it is the same, until it is kept no longer.",
        "publish",
        {
            200: ("The reply.", "Event"),
            202: ("There is no reply yet.", "Pending"),
            404: ("There is no such request.", "Problem"),
            502: ("The request was set aside.", "Problem"),
            **{status: _ERRORS[status] for status in (400, 401, 403, 422, 503)},
        },
        (Parameter("id", "path", "The id of the request."), _PREFER),
    ),
    Operation(
        "receive",
        "POST",
        "/v1/queues/{queue}/deliveries",
        "Take the next messages of a group, in order, under a lease: nobody else gets the group until it ends.",
        "receive",
        {
            200: ("A delivery.", "Delivery"),
            204: ("There is nothing to hand out.", None),
            **{status: _LEASE_ERRORS[status] for status in (404, 409, 410, 415)},
            **_ERRORS,
        },
        (_QUEUE,),
        {"application/json": "Wanted"},
    ),
    _call("complete", "Complete messages, and publish what results from them, in one transaction.", "Complete"),
    _call("fail", "Count the failure of a handler at a message, complete those before it, and end the lease.", "Fail"),
    _call("postpone", "Have a message handed out later, complete those before it, and end the lease.", "Postpone"),
    _call("dead_letter", "Make a message a dead letter, complete those before it, and end the lease.", "DeadLetter"),
    _call("renew", "Ask for a time from now.", "Renew", "Until"),
    Operation(
        "give_back",
        "DELETE",
        "/v1/queues/{queue}/deliveries/{id}",
        "End the lease: what isn't done is handed out again, and no attempt is counted.",
        "receive",
        {200: ("It is over.", "Done"), **_LEASE_ERRORS, **_ERRORS},
        (_QUEUE, _DELIVERY),
    ),
    Operation(
        "body",
        "GET",
        "/v1/queues/{queue}/deliveries/{id}/messages/{position}/body",
        "Fetch the body of a message of a delivery.",
        "receive",
        {200: ("The body; its media type is the message's.", "Bytes"), **_LEASE_ERRORS, **_ERRORS},
        (_QUEUE, _DELIVERY, Parameter("position", "path", "The position of the message.", _POSITION)),
    ),
)  # fmt: skip
