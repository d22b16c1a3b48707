"""The connected peers, and whose connection is closed when there is no room."""

from __future__ import annotations

import ipaddress
import ssl
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class ConnectionState(Enum):
    BEGINS = "begins"  # a handshake, or the head of a request
    SENDS = "sends"  # the body of a request
    ANSWERED = "answered"
    IDLE = "idle"


@dataclass(slots=True, eq=False)
class Visitor:
    address: str
    #: The time of the monotonic clock at which it was accepted.
    began: float
    close: Callable[[], object]
    #: Whether the other side has ended its connection, by what the system knows now.
    has_left: Callable[[], bool] = lambda: False
    state: ConnectionState = ConnectionState.BEGINS
    is_unread: bool = False
    #: Whether it is one of those that are reserved for health.
    asks_health: bool = False
    #: Its TLS, which has the certificate of the other side; None: there is none.
    tls: ssl.SSLObject | None = None
    #: An application's notes, from request to request.
    notes: dict[str, Any] = field(default_factory=dict)
    crowd: Crowd | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether the other side has to act, so that it may be closed in favour of another one."""
        return self.state is not ConnectionState.ANSWERED or self.is_unread


class Crowd:
    """A limited number of connections, and a limited number of one name. Where there is no room, one of those goes that wait for their
    other side: of the name that has most of them, the one that came first. So a name that fills the room with connections that do nothing
    takes it away from itself only.
    """

    def __init__(self, most: int, of_name: int) -> None:
        self._most, self._of_name = most, of_name
        self._there: dict[Visitor, Hashable] = {}

    def enter(self, visitor: Visitor, name: Hashable) -> bool:
        """Let a connection in, if need be in place of another one; it leaves its former crowd. False: there is no room, and nothing has
        changed.
        """
        own = [visitor for visitor, visitor_name in self._there.items() if visitor_name == name]
        if len(own) >= self._of_name:
            return self._close_one(own) and self._let_in(visitor, name)
        if len(self._there) >= self._most:
            return self.close_one() and self._let_in(visitor, name)
        return self._let_in(visitor, name)

    def leave(self, visitor: Visitor) -> None:
        """Remove a connection that is over, or goes elsewhere."""
        self._there.pop(visitor, None)
        visitor.crowd = None

    def close_one(self) -> bool:
        """Close a connection in favour of another one; return False if all are being answered."""
        awaited = [visitor for visitor in self._there if visitor.is_awaited]
        if not awaited:
            return False
        of_names = Counter(self._there[visitor] for visitor in awaited)
        (name, _), *_ = of_names.most_common(1)
        return self._close_one([visitor for visitor in awaited if self._there[visitor] == name])

    def _close_one(self, visitors: list[Visitor]) -> bool:
        first = next((visitor for visitor in visitors if visitor.is_awaited), None)
        if first is None:
            return False
        self.leave(first)
        first.close()
        return True

    def _let_in(self, visitor: Visitor, name: Hashable) -> bool:
        if visitor.crowd is not None:
            visitor.crowd.leave(visitor)
        self._there[visitor] = name
        visitor.crowd = self
        return True


def name_of(address: str) -> str:
    """Return the name of strangers at an address: for IPv6 its network of 64 bits, all of which one machine may have."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return address if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))
