"""The address of a box over HTTPS: ``https://host:port``, in which ``${NAME}`` may stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from seriatim.errors import UsageError, shown

#: A variable of the environment, which the process that transmits reads.
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FORM = "https://host:port, the address at which a seriatim serve --listen of the other box listens"


def checked_address(url: object) -> tuple[str, int]:
    """Host and port of an address. While a variable stands in it, they may be others later."""
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        raise UsageError(f"url can't be {shown(url)}", remedy=_FORM, argument="url")
    # Any number is a host and a port, as far as this goes.
    text = "https://0" if VARIABLE.fullmatch(url) else VARIABLE.sub("0", url)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"url can't be {shown(url)}", remedy=_FORM, argument="url") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError("url names a user", remedy="leave it out: the certificate says who calls", argument="url")
    if parts.scheme != "https" or not host or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise UsageError(f"url can't be {shown(url)}", remedy=_FORM, argument="url")
    return host, 443 if port is None else port


def with_variables(text: str, environment: Mapping[str, str]) -> str:

    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise UsageError(f"{shown(text)} names ${{{found[1]}}}, which isn't set", remedy=f"export {found[1]}=…")
        return environment[found[1]]

    return VARIABLE.sub(value, text)
