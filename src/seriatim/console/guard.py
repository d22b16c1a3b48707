"""What a request has to fulfil before a page sees it: its host, its origin, its size; and the headers of each answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import Request

#: The headers of each answer. Nothing is loaded from elsewhere, nothing is kept, and nobody may frame a page.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_READING = ("GET", "HEAD")


class Refusal(Exception):
    """A request that is refused: `status`, and `what` is wrong; `remedy`: what to do."""

    def __init__(self, status: int, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.what = what
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Rules:
    #: The names by which the console may be called, besides those of this machine's loopback.
    hosts: Collection[str] = field(default_factory=frozenset)
    #: The origins, such as ``https://ops.example.org``, under which browsers see it.
    origins: Collection[str] = field(default_factory=frozenset)

    def check(self, request: Request) -> None:
        if request.method not in (*_READING, "POST"):
            raise Refusal(405, f"the console has nothing for {request.method}")
        self._check_host(request)
        if request.method not in _READING:
            self._check_origin(request)

    def _check_host(self, request: Request) -> None:
        given = request.headers.getlist("host")
        names = {host_of(one) for one in self.origins} | {*self.hosts} | _LOCAL
        if len(given) != 1 or host_of(f"//{given[0]}") not in names:
            raise Refusal(
                421,
                "the console is not called by this name",
                "start it with --origin, the address by which browsers reach it",
            )

    def _check_origin(self, request: Request) -> None:
        site = request.headers.getlist("sec-fetch-site")
        if site:
            if site == ["same-origin"]:
                return
        else:
            origin = request.headers.getlist("origin")
            own = f"{request.url.scheme}://{request.headers['host']}"
            if len(origin) == 1 and (origin[0] == own or origin[0] in self.origins):
                return
        raise Refusal(403, "this was sent from another site, and nothing was done", "use the console's own pages")


def host_of(address: str) -> str:
    """The host of an address, in lower case and without its port; empty if there is none."""
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
