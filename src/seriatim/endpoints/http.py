"""The HTTP port: posts each message as a CloudEvent, at least once, with an idempotency key for the receiver; what that answers may be
published.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import quote, urlsplit

import httpx

from seriatim.endpoints.delivery import Delivered, Transaction, given_messages, idempotency_key, in_hand, seconds_of
from seriatim.endpoints.exchange import MOST_BYTES, Broken, Exchange, HttpResponse, NotSent
from seriatim.errors import Business, Transient, UsageError, shown
from seriatim.pipeline.text.storable import fits_text
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.answer import Answer
from seriatim.pipeline.types.message import Message, Property, Received

#: Statuses after which a retry may succeed, besides 500 and above: time-out, too early, too many.
_AGAIN = frozenset({408, 425, 429})
#: The most bytes of an answer that can be published.
_MOST_RESPONSE_BYTES = 100 * 2**20
#: Characters of an answer that are shown.
_SHOWN = 300
_LONGEST_PAUSE_S = 86_400.0
_EXTENSION = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
#: Attributes of CloudEvents, and those that the port sets itself.
_TAKEN = frozenset(
    {"id", "source", "specversion", "type", "time", "subject", "datacontenttype", "dataschema", "data", "data_base64"}
    | {"partitionkey", "sequence"}
)
#: Headers that each message gets, besides those that begin with ce-.
_OWN_HEADERS = frozenset({"content-type", "idempotency-key", "content-length", "transfer-encoding"})
#: Digits of an ordinal, which is compared as text.
_DIGITS = 19
#: The characters that CloudEvents don't escape in a header: printable ASCII except space, double quote and percent.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


class HttpPort:
    """A handler that posts to an address. Threads share one, and its connections.

    Attributes:
        run_length: 1 where answers are published, so that an answer isn't received again because another message failed; None: any.
    """

    @typed
    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        source: str | None = None,
        extensions: Mapping[str, str] | None = None,
        timeout: float | str = 10.0,
        response: str | None = None,
        response_headers: Mapping[str, str] | None = None,
        response_bytes: int = 2**20,
        refused: Literal["fault", "answer"] = "fault",
    ) -> None:
        try:
            self._url = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            raise UsageError("the url of the port can't be read", remedy="such as https://host/path") from None
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise UsageError(
                "the url of the port must begin with http:// or https://", remedy="such as https://host/path"
            )
        if self._url.port is not None and not 0 < self._url.port < 65536:
            raise UsageError(f"the url of the port has no port {self._url.port}", remedy="a number from 1 to 65,535")
        for name in extensions or {}:
            if not _EXTENSION.fullmatch(name) or name in _TAKEN:
                raise UsageError(
                    f"{shown(name)} can't be the name of an event's extension",
                    remedy="a-z and 0-9, and no attribute of CloudEvents",
                )
        try:
            urlsplit(source or "")
        except ValueError:
            raise UsageError(f"source can't be {shown(source)}", remedy="a URI, such as https://shop.example") from None
        _check_response(response, response_headers or {}, response_bytes, refused)
        #: The type of the messages that are published with what was answered; None: nothing is published.
        self._response = response
        #: The properties of such a message, by the names of the headers that they have.
        self._response_headers = dict(response_headers or {})
        #: A longer answer is a fault.
        self._response_bytes = response_bytes
        #: Whether an answer from 400 to 499 is published, and no fault.
        self._takes_refusals = refused == "answer"
        self.run_length = None if response is None else 1
        #: Further attributes of the event, by their names (a-z and 0-9): the names of their properties.
        self._extensions = dict(extensions or {})
        #: The beginning of the event's ``source``, a URI; default: ``/queues/NAME``. The group follows it, ``/groups/GROUP``, because
        #: each group has its own order.
        self._source = source
        #: Seconds for a message, from looking up the host to the last byte of the answer.
        self._timeout = seconds_of(timeout)
        #: Further headers, such as ``Authorization``; none of those that the port sets for each message.
        self._headers = _checked(headers or {})
        #: The address, without secrets, for errors.
        self.place = f"{self._url.scheme}://{self._url.host}{f':{self._url.port}' if self._url.port else ''}"
        self._exchange: Exchange | None = None
        self._lock = threading.Lock()

    def __call__(self, received: Received | Delivered, tx: Transaction) -> list[Message] | None:
        """Post the given messages, one after another; return what was answered, if it is to be published."""
        delivered = in_hand(tx)
        answers = [(message, self._post(delivered, message)) for message in given_messages(received)]
        return (
            None
            if self._response is None
            else [Answer(message, self._published(answer)) for message, answer in answers]
        )

    def close(self) -> None:
        with self._lock:
            exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()

    def _post(self, delivered: Delivered, message: Received) -> HttpResponse:
        try:
            answer = self._opened().post({**self._headers, **self._event(delivered, message)}, message.body)
        except NotSent:
            raise Business(
                "the message can't be sent: a header contains characters that HTTP doesn't allow", where=self.place
            ) from None
        except Broken as error:
            raise Transient(f"{error} at {self.place}", where=self.place) from None
        if 200 <= answer.status < 300 or (
            self._takes_refusals and 400 <= answer.status < 500 and answer.status not in _AGAIN
        ):
            return answer
        answer_text = _in_a_line(answer.body)
        problem = f"the answer was {answer.status}{f': {answer_text}' if answer_text else ''}"
        if answer.status in _AGAIN or answer.status >= 500:
            raise Transient(problem, where=self.place, retry_after=_retry_after(answer.headers))
        raise Business(problem, where=self.place)

    def _published(self, answer: HttpResponse) -> Message:
        """The message that has what was answered; headers that the box can't store are left out."""
        if len(answer.body) > self._response_bytes:
            raise Business(
                f"the answer has more than {self._response_bytes:,} bytes",
                where=self.place,
                remedy="the receiver has taken the message; give the port more response_bytes",
            )
        known = {name: value for name, value in answer.headers.items() if value and fits_text(value)}
        named = {property_: known.get(name.lower()) for name, property_ in self._response_headers.items()}
        context: dict[str, Property] = {name: value for name, value in named.items() if value is not None}
        return Message(
            type=self._response or "", body=answer.body, content_type=known.get("content-type"),
            context={**context, "status": answer.status},
        )  # fmt: skip

    def _opened(self) -> Exchange:
        with self._lock:
            if self._exchange is None:
                most = MOST_BYTES if self._response is None else max(MOST_BYTES, self._response_bytes + 1)
                self._exchange = Exchange(self._url, self._timeout, most)
            return self._exchange

    def _event(self, delivered: Delivered, message: Received) -> dict[str, str]:
        """The headers of a message as a CloudEvent 1.0 in binary mode, and its key."""
        attributes: dict[str, Property] = {
            "specversion": "1.0",
            "id": message.message_id,
            "source": self._source_of(delivered),
            "type": message.type,
            "time": message.received_at,
            "partitionkey": delivered.group,
            "sequence": None if message.ordinal is None else f"{message.ordinal:0{_DIGITS}d}",
        }
        attributes |= {name: message.context.get(property_) for name, property_ in self._extensions.items()}
        event = {
            f"ce-{name}": _header(value) for name, value in attributes.items() if value is not None and value != ""
        }
        event["Content-Type"] = message.content_type or "application/octet-stream"
        if not event["Content-Type"].isascii() or any(letter in event["Content-Type"] for letter in "\r\n"):
            raise Business("the content type of the message can't be sent as an HTTP header")
        sent = [f"{name}: {event.get(f'ce-{name}', '')}" for name in self._extensions]
        return event | {"Idempotency-Key": idempotency_key(delivered, message, sent)}

    def _source_of(self, delivered: Delivered) -> str:
        """Return the source, whose events are in order: a group, since it was last forgotten."""
        source = self._source or f"/queues/{quote(delivered.queue, safe='')}"
        if delivered.group is None:
            return source
        again = f";incarnation={delivered.incarnation}" if delivered.incarnation else ""
        parts = urlsplit(source)
        return parts._replace(path=f"{parts.path.rstrip('/')}/groups/{quote(delivered.group, safe='')}{again}").geturl()


def _check_response(response: str | None, headers: Mapping[str, str], most: int, refused: object) -> None:
    if response is None and (headers or refused != "fault"):
        raise UsageError(
            "response is missing: the type of the messages with what was answered", remedy='such as response="price"'
        )
    if response == "":
        raise UsageError(f"{shown(response, 80)} can't be the type of a message", remedy='such as response="price"')
    if not 0 <= most <= _MOST_RESPONSE_BYTES:
        raise UsageError(
            f"response_bytes can't be {shown(most)}", remedy=f"a whole number, at most {_MOST_RESPONSE_BYTES:,}"
        )
    if refused not in ("fault", "answer"):
        raise UsageError(f"refused can't be {shown(refused)}", remedy="fault, or answer")
    for name, property_ in headers.items():
        if not name or not property_ or property_ == "status":
            raise UsageError(
                f"the header {shown(name)} can't be the property {shown(property_)}",
                remedy="header → property; status is the status itself",
            )


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    try:
        encoded = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
    except UnicodeEncodeError:
        raise UsageError("a header of the port isn't ASCII text", remedy="encode it") from None
    if any(b"\n" in part or b"\r" in part or b"\0" in part for pair in encoded for part in pair):
        raise UsageError("a header of the port contains a line break", remedy="remove the line break")
    for name in headers:
        if name.lower() in _OWN_HEADERS or name.lower().startswith("ce-"):
            raise UsageError(f"the port gives the header {shown(name)} itself", remedy="leave it out")
    return dict(headers)


def _header(value: Property) -> str:
    match value:
        case bool():
            text = str(value).lower()
        case datetime():
            text = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            text = str(value)
    return quote(text, safe=_PLAIN)


def _in_a_line(body: bytes) -> str:
    return " ".join(body[: 4 * _SHOWN].decode(errors="replace").split())[:_SHOWN]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until a retry, if the answer requests a delay: a number, or a time of the receiver's clock."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 10:
        return min(float(value), _LONGEST_PAUSE_S)
    try:
        moment = parsedate_to_datetime(value)
        now = parsedate_to_datetime(headers["Date"]) if "Date" in headers else datetime.now(UTC)
        return min(max((moment - now).total_seconds(), 0.0), _LONGEST_PAUSE_S)
    except (ValueError, TypeError, OverflowError):
        return None
