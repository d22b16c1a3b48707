"""HTTPS to the listening process of the other box: it carries frames there and answers back."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpcore

from seriatim.box.links.certificates import CertificateFiles
from seriatim.box.links.layout import LARGEST_FRAME
from seriatim.errors import EnvironmentProblem, LinkProtocolError, SeriatimError, Unavailable
from seriatim.network import SILENT_S, DeadlineNetwork, transfer_s
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.link_address import checked_address, with_variables

#: The paths of the three doors, and the content type of a frame.
PUSH, FETCH, TRACE = "/link/push", "/link/fetch", "/link/trace"
MEDIA_TYPE = "application/octet-stream"
#: The longest time until the other side's answer begins, seconds: longer than a statement may take there. Its absence is noticed
#: earlier.
ANSWER_S = 120.0
_CONNECT_S = 10.0
#: An idle connection is closed after that, seconds; the other side waits longer.
_IDLE_S = 60.0
#: The most characters that are shown of an answer that isn't a frame.
_MOST_TEXT = 300
#: The words of a TLS alert for a refused certificate.
_ALERTS = ("ALERT_CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_UNSUPPORTED_CERTIFICATE")


class HttpsCarrier:
    """A way to the box of a link by HTTPS; each frame is a request. It connects again when the other side has closed, or a file changed."""

    def __init__(
        self,
        link: Link,
        environment: Mapping[str, str] = os.environ,
        *,
        answer_s: float = ANSWER_S,
        connect_s: float = _CONNECT_S,
    ) -> None:
        self._answer_s, self._connect_s = answer_s, connect_s
        place = f"link {link.name!r}"
        url = with_variables(str(link.url), environment)
        host, port = checked_address(url)
        self._to = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        certificate, key, authority = (
            with_variables(str(path), environment) for path in (link.certificate, link.key, link.authority)
        )
        self._where = f"{place}, {self._to}"
        self._files = CertificateFiles(certificate, key, authority, place)
        self._stamp = self._files.stamp()
        self._pool = self._connections()

    def push(self, frame: bytes) -> bytes:
        return self._call(PUSH, frame)

    def fetch(self, request: bytes) -> bytes:
        return self._call(FETCH, request)

    def trace(self, question: bytes) -> bytes:
        return self._call(TRACE, question)

    def close(self) -> None:
        self._pool.close()

    def _connections(self) -> httpcore.ConnectionPool:
        # One connection, so that the answers to a batch use the connection of the batch.
        return httpcore.ConnectionPool(
            ssl_context=self._files.for_client(),
            max_connections=1,
            keepalive_expiry=_IDLE_S,
            network_backend=DeadlineNetwork(SILENT_S),
        )

    def _call(self, path: str, frame: bytes) -> bytes:
        if (stamp := self._files.stamp()) != self._stamp:
            self._pool.close()
            self._pool, self._stamp = self._connections(), stamp
        now = time.monotonic()
        sent = now + self._connect_s + transfer_s(len(frame))
        by = {"connect": now + self._connect_s, "write": sent, "read": sent + self._answer_s, "pool": None}
        headers = [("Content-Type", MEDIA_TYPE), ("User-Agent", "seriatim"), ("Accept", MEDIA_TYPE)]
        with (
            self._told(),
            self._pool.stream(
                "POST", self._to + path, headers=headers, content=frame, extensions={"timeout": by}
            ) as answer,
        ):
            most = LARGEST_FRAME if answer.status == 200 else _MOST_TEXT
            by["read"] = time.monotonic() + transfer_s(most)
            body = bytearray()
            for piece in answer.iter_stream():
                body += piece
                if len(body) > most:
                    break
            if answer.status != 200:
                raise self._refused(answer.status, bytes(body[:_MOST_TEXT]).decode("utf-8", "replace").strip())
            kind = dict(answer.headers).get(b"content-type", dict(answer.headers).get(b"Content-Type", b""))
            if kind != MEDIA_TYPE.encode() or len(body) > most:
                raise LinkProtocolError(
                    "what answers there isn't a message box", where=self._where, remedy="mend its url"
                )
        return bytes(body)

    def _refused(self, status: int, text: str) -> SeriatimError:
        if status == 403:
            return EnvironmentProblem(
                "the other box doesn't know the key of this side's certificate",
                where=self._where,
                remedy="there: seriatim link accept NAME --certificate FILE --box ID, with each --queue and --service that this box may "
                "use; with --replace if the key is another one",
            )
        if status in (408, 429, 500, 502, 503, 504):
            return Unavailable(
                f"the other box can't take it now: {text or status}", where=self._where, remedy="it is tried again"
            )
        return LinkProtocolError(
            f"what answers there isn't a message box, or another version: {status} {text}",
            where=self._where,
            remedy="mend its url",
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Translate the errors of an exchange."""
        try:
            yield
        except httpcore.TimeoutException as error:
            raise Unavailable(
                f"the other box doesn't answer in time ({type(error).__name__})",
                where=self._where,
                remedy="it is tried again",
            ) from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            cause = error.args[0] if error.args else None  # of the socket; httpcore removes its cause
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise EnvironmentProblem(
                    f"the certificate of the other side isn't to be trusted: {cause.verify_message.rstrip('.')}",
                    where=self._where,
                    remedy="authority has to have signed it, and its subjectAltName to have the name in url",
                ) from error
            if isinstance(cause, ssl.SSLError) and any(alert in (cause.reason or "") for alert in _ALERTS):
                why = cause.reason.partition("ALERT_")[2].replace("_", " ").lower()
                raise EnvironmentProblem(
                    f"the other side doesn't take the certificate of this one: {why}",
                    where=self._where,
                    remedy="the authority there has to have signed it, and it must not be over",
                ) from error
            raise Unavailable(
                f"the other box can't be reached: {str(error) or type(error).__name__}",
                where=self._where,
                remedy="it is tried again",
            ) from error
