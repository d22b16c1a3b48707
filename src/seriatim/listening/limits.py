"""The limits of connections to a listening process."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from seriatim.network import SILENT_S

#: Connections of strangers at once, and those of one address.
CONNECTIONS, OF_ADDRESS = 128, 96
#: The same where callers hold their connections while they wait, as open pages do; a proxy may have those of all.
HELD, HELD_OF_ADDRESS = 2048, 1024
#: Further connections for health only, when all others are being answered.
RESERVE = 8
#: Seconds for the first byte of a connection with TLS, for the rest of its handshake, and for the head of a request as a whole.
FIRST_BYTE_S, HANDSHAKE_S, HEAD_S = 3.0, 5.0, 10.0
#: Bytes of the head of a request; seconds until the first byte of the next one.
LARGEST_HEAD, IDLE_S = 16_384, 15.0


@dataclass(frozen=True, slots=True)
class ListenLimits:
    #: Connections of unknown peers at once: at most a half of the files that the process may have open.
    connections: int = CONNECTIONS
    #: Connections of one address; for IPv6, of one network of 64 bits.
    of_address: int = OF_ADDRESS
    #: Seconds for the first byte of a connection with TLS.
    first_byte_s: float = FIRST_BYTE_S
    handshake_s: float = HANDSHAKE_S
    #: Seconds for the head of a request, as a whole.
    head_s: float = HEAD_S
    largest_head: int = LARGEST_HEAD
    #: Seconds until the first byte of the next request.
    idle_s: float = IDLE_S
    #: Seconds without a byte of a body, and without an answer being taken, after which a connection is closed.
    silent_s: float = SILENT_S

    @property
    def room(self) -> int:
        """Connections of unknown peers at once, in this process."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return self.connections if files == resource.RLIM_INFINITY else max(1, min(self.connections, files // 2))
