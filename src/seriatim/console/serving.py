"""The console as a process: which users it has, and where it may listen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seriatim.box.box import MessageBox
from seriatim.console.app import create_app
from seriatim.console.guard import host_of
from seriatim.console.server import Server, is_loopback, parsed
from seriatim.console.who import ROLES, Identify, by_header, by_password, checked_roles, everybody, read_users
from seriatim.errors import UsageError, shown
from seriatim.operations.looking import open_to_look

__all__ = ["identify_by", "opened", "server_of"]


def opened(dsn: str | None, schema: str, *, reads_only: bool) -> MessageBox:
    """Open a box for the console; see `open_to_look`."""
    return open_to_look(dsn, schema=schema, reads_only=reads_only)


def identify_by(
    users: Path | None, header: str | None, proxies: Sequence[str] = (), roles: Sequence[str] | None = None
) -> Identify | None:
    """Who asks, by a header of a proxy, by a users file, or both; None: neither is there.

    Raises:
        UsageError: the users file, an address or a role is invalid, or options don't fit together.
    """
    found = None if users is None else read_users(users)
    if proxies and header is None:
        raise UsageError("--trusted-proxy says whose header is believed", remedy="name it with --actor-header")
    if roles is not None and users is not None:
        raise UsageError("the users file says who may do what", remedy="leave --roles out")
    if header is not None:
        given = ("see", "mend") if roles is None else sorted(checked_roles(roles))
        return by_header(header, proxies or ("127.0.0.1", "::1"), given, found)
    return None if found is None else by_password(found)


def server_of(
    box: MessageBox,
    *,
    listen: str,
    prefix: str = "",
    origins: Sequence[str] = (),
    reads_only: bool = False,
    users: Path | None = None,
    header: str | None = None,
    proxies: Sequence[str] = (),
    roles: Sequence[str] | None = None,
    pipelines: Sequence[Path] = (),
) -> Server:
    """A server of the console, which listens already.

    Raises:
        UsageError: an option is invalid; or others could reach a console that knows no users.
        EnvironmentProblem: it can't listen there.
    """
    host, port = parsed(listen)
    identify = identify_by(users, header, proxies, roles)
    if identify is None:
        if not is_loopback(host):
            raise UsageError(
                f"others could reach the console at {listen}, and act under your name",
                remedy="give --users or --actor-header, or listen on 127.0.0.1",
            )
        identify = everybody(tuple(ROLES) if roles is None else checked_roles(roles))
    for one in origins:
        if not one.startswith(("http://", "https://")) or one.count("/") != 2 or not host_of(one):
            raise UsageError(
                f"{shown(one)} is no origin", remedy="scheme, host and port, such as https://ops.example.org"
            )
    names = () if host in ("0.0.0.0", "::") else (host,)  # noqa: S104 -- compared, not listened on
    app = create_app(
        box, identify=identify, prefix=prefix, hosts=names, origins=origins, reads_only=reads_only, pipelines=pipelines
    )
    return Server(app, host, port)
