"""Whether a link's connection can be read or answered by a third party on the way.

Between hosts a connection has to encrypt, and to prove which host answers: `sslmode=verify-full`. A weaker mode looks like it and isn't:
`require` takes any certificate, and `prefer` goes on without encryption. A socket and the loopback address leave no host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from seriatim.box.connection.dsn import place_of, resolve
from seriatim.errors import UsageError

_STRICT = "verify-full"
_REMEDY = "add sslmode=verify-full with sslrootcert=…; or insecure=True, if nobody else can be on the way"


def carrier_dsn(dsn: str, *, insecure: bool = False, environment: Mapping[str, str] = os.environ) -> str:
    """The DSN with which a link connects, in libpq's form and with its secrets."""
    text = resolve(dsn, environment)
    parts = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    mode = parts.get("sslmode") or environment.get("PGSSLMODE", "")
    service = parts.get("service") or environment.get("PGSERVICE", "")
    hosts = parts.get("hostaddr") or parts.get("host")
    if hosts is None and not service:
        hosts = environment.get("PGHOSTADDR") or environment.get("PGHOST") or ""
    if insecure or (hosts is not None and all(map(_stays_here, hosts.split(",")))):
        return text
    # A service may have the mode in its file, which only libpq reads: it gets the strict one either way.
    if mode != _STRICT and (mode or not service):
        raise UsageError(
            f"the link goes to another host with {f'sslmode={mode}' if mode else 'no sslmode'}, so somebody on the way could answer",
            where=place_of(text, "seriatim", environment).partition(",")[0],
            remedy=_REMEDY,
        )
    # With Kerberos at hand libpq would encrypt by it, and pass the mode over.
    return make_conninfo(text, sslmode=_STRICT, gssencmode="disable")


def _stays_here(host: str) -> bool:
    """Whether a connection to a host leaves this machine not at all: by a socket, or to itself."""
    name = host.strip()
    if name in ("", "localhost") or name[0] in "/@":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
