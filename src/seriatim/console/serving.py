"""The console as a process: which users it has, and where it may listen."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from starlette.applications import Starlette

from seriatim.box.box import MessageBox
from seriatim.console.app import create_app
from seriatim.console.guard import host_of
from seriatim.console.who import ROLES, Identify, by_header, by_password, by_token, checked_roles, everybody, read_users
from seriatim.errors import UsageError, shown
from seriatim.listening.address import host_and_port, is_loopback, listening, listening_on_path, url_of
from seriatim.listening.limits import HELD, HELD_OF_ADDRESS, ListenLimits
from seriatim.listening.server import Server as Listening
from seriatim.operations.looking import open_to_look

#: The variable of the environment with the token of the console, in place of one by chance; it has so many characters at least.
TOKEN, _SHORTEST = "SERIATIM_CONSOLE_TOKEN", 16

#: How an address begins that is the path of a Unix socket.
_UNIX = "unix:"

#: A page that is open holds a connection; its address may have a long filter.
_LIMITS = ListenLimits(connections=HELD, of_address=HELD_OF_ADDRESS, largest_head=64 * 1024)


class Server(Listening):
    """A server that ends open event streams before it waits for requests."""

    def __init__(
        self, app: Starlette, listener: socket.socket, home: str = "/", *, limits: ListenLimits = _LIMITS
    ) -> None:
        super().__init__(app, "the console", listener, limits=limits, health=app.state.health, lifespan=True)
        self._app = app
        self.address = url_of(listener)
        self.opens_at = f"{self.address}{home}"

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, and then as uvicorn does."""
        self._app.state.poller.end()
        super().handle_exit(sig, frame)


def opened(dsn: str | None, schema: str, *, reads_only: bool) -> MessageBox:
    """Open a box for the console; see `open_to_look`."""
    return open_to_look(dsn, schema=schema, reads_only=reads_only)


def identify_by(
    users: Path | None, header: str | None, proxies: Sequence[str] = (), roles: Sequence[str] | None = None
) -> Identify | None:
    """Who asks, by a header of a proxy, by a users file, or both; None: neither is there."""
    found = None if users is None else read_users(users)
    if proxies and header is None:
        raise UsageError("--trusted-proxy says whose header is believed", remedy="name it with --actor-header")
    if roles is not None and users is not None:
        raise UsageError("the users file says who may do what", remedy="leave --roles out")
    if header is not None:
        if not proxies:
            raise UsageError(
                "--actor-header believes whoever sends the header: say which proxy that is",
                remedy="--trusted-proxy with its address (on loopback every process of this machine is believed), "
                "or unix with --listen unix:PATH",
            )
        given = ("see", "mend") if roles is None else sorted(checked_roles(roles))
        return by_header(header, proxies, given, found)
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
    needs_token: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> Server:
    """A server of the console, which listens already. A console that knows no users opens with a token, unless `needs_token` is false: then
    everybody who reaches it is the user who runs it.
    """
    on_path = listen.startswith(_UNIX)
    host, port = ("", 0) if on_path else host_and_port(listen, "127.0.0.1:8470")
    identify, home = identify_by(users, header, proxies, roles), f"{prefix}/"
    if identify is not None and not needs_token:
        raise UsageError("there is no token where users are known", remedy="leave --no-token out")
    if "unix" in proxies and not on_path:
        raise UsageError(
            "a proxy is believed that has no address, and the console has one", remedy="--listen unix:PATH"
        )
    if identify is None and not is_loopback(host):
        raise UsageError(
            f"others could reach the console at {listen}, and act under your name",
            remedy="give --users or --actor-header, or listen on 127.0.0.1",
        )
    for one in origins:
        if not one.startswith(("http://", "https://")) or one.count("/") != 2 or not host_of(one):
            raise UsageError(
                f"{shown(one)} is no origin", remedy="scheme, host and port, such as https://ops.example.org"
            )
    names = () if host in ("", "0.0.0.0", "::") else (host,)  # noqa: S104 -- compared, not listened on
    listener = (
        listening_on_path(listen.removeprefix(_UNIX), "--listen") if on_path else listening(host, port, "--listen")
    )
    try:
        if identify is None:
            may = tuple(ROLES) if roles is None else checked_roles(roles)
            identify = everybody(may)
            if needs_token:
                token = _token(environment)
                identify = by_token(token, f"seriatim-{listener.getsockname()[1]}", may)
                home += f"?token={token}"
        app = create_app(
            box, identify=identify, prefix=prefix, hosts=names, origins=origins, reads_only=reads_only, pipelines=pipelines
        )  # fmt: skip
    except BaseException:
        listener.close()
        raise
    return Server(app, listener, home)


def _token(environment: Mapping[str, str]) -> str:
    given = environment.get(TOKEN)
    if given is None:
        return secrets.token_urlsafe(24)
    if len(given) < _SHORTEST or not (given.isascii() and given.replace("-", "").replace("_", "").isalnum()):
        raise UsageError(f"{TOKEN} can't be a token", remedy=f"at least {_SHORTEST} letters, digits, - and _")
    return given
