"""Who uses the console, and what they may do: who has its token, a user whom a proxy names, or one of a users file."""

from __future__ import annotations

import base64
import binascii
import getpass
import hmac
import ipaddress
import os
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import scrypt, sha256
from pathlib import Path

from starlette.requests import Request

from seriatim.errors import UsageError, shown
from seriatim.listening.threads import Threads

#: What a user may do, from the least to the most.
ROLES: Mapping[str, str] = {
    "see": "see queues, groups, heads of messages, faults and the operator log",
    "see-bodies": "see bodies and properties of messages, and edit the one that is retried",
    "mend": "retry, resume, suspend, skip, reset and restart groups, put messages back, route messages again",
    "discard": "abort and close groups, delete messages, terminate instances",
    "switch": "turn queues and subscriptions on and off, set how queues are worked on, end connections",
}
#: scrypt's parameters: 64 MB and about a tenth of a second for each password that is tried.
_N, _R, _P = 2**15, 16, 1
_MOST_MEMORY = 128 * 2**20
_SALT = 16
#: The passwords that are tried at once, in threads of their own, and the requests that wait for that; others are told to come again.
_TRIED, _TRIES = 2, 16
#: The proxy behind a Unix socket, which has no address.
_UNIX = "unix"
#: The character between the fields of a line of the users file, which a name can't have.
_SEPARATOR = ":"


@dataclass(frozen=True, slots=True)
class Actor:
    """A user of the console: `name`, as it is written to the operator log, and `roles`, some of `ROLES`."""

    name: str
    roles: frozenset[str]


@dataclass(frozen=True, slots=True)
class User:
    """A line of a users file: `name`, `roles`, and the salt and the hash of the password."""

    name: str
    roles: frozenset[str]
    salt: bytes
    hash: bytes


class Unknown(Exception):
    """The user of a request can't be identified: `why`. `challenge`: the value of `WWW-Authenticate`, if a password would help."""

    def __init__(self, why: str, challenge: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.challenge = challenge


class Welcome(Exception):
    """The address of a request has the token. The answer sets a cookie (`name` and `value`) that identifies the user from now on."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(name)
        self.name = name
        self.value = value


#: Identifies the user of a request, or raises `Unknown`, or `Busy` if too many ask. Unless it is a coroutine function, a thread calls it.
Identify = Callable[[Request], Actor | Awaitable[Actor]]


def checked_roles(names: Iterable[str]) -> frozenset[str]:
    found = frozenset(one.strip() for one in names if one.strip())
    for one in found:
        if one not in ROLES:
            raise UsageError(f"there is no role {shown(one)}", remedy=f"some of {', '.join(ROLES)}")
    return found | {"see"} if found else found


def everybody(roles: Collection[str] = tuple(ROLES)) -> Identify:
    actor = Actor(getpass.getuser(), frozenset(roles))

    async def identify(_: Request) -> Actor:
        return actor

    return identify


def by_token(token: str, cookie: str, roles: Collection[str] = tuple(ROLES)) -> Identify:
    """A request with the token is of the user that runs the console. The token is in the query of the address that is opened
    (``?token=…``), from then on in a cookie, or in the header ``Authorization: Bearer …`` of what is no browser.
    """
    actor = Actor(getpass.getuser(), frozenset(roles))

    def fits(given: str) -> bool:
        return hmac.compare_digest(given.encode(), token.encode())

    async def identify(request: Request) -> Actor:
        if request.method == "GET" and fits(request.query_params.get("token", "")):
            raise Welcome(cookie, token)
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        if fits(request.cookies.get(cookie, "")) or (kind.lower() == "bearer" and fits(bearer.strip())):
            return actor
        raise Unknown(
            "this console opens with its token: open the address that it printed when it was started",
            'Bearer realm="seriatim"',
        )

    return identify


def by_header(
    header: str,
    proxies: Collection[str],
    roles: Collection[str] = ("see", "mend"),
    users: Mapping[str, User] | None = None,
) -> Identify:
    """A proxy has found out who asks, and says so in a header. Only proxies at these addresses are believed."""
    trusted, believes_socket = [], _UNIX in proxies
    for one in set(proxies) - {_UNIX}:
        try:
            trusted.append(ipaddress.ip_network(one))
        except ValueError:
            raise UsageError(
                f"{shown(one)} is no address of a proxy", remedy="such as 10.0.0.7 or 10.0.0.0/24, or unix"
            ) from None

    async def identify(request: Request) -> Actor:
        given = request.headers.getlist(header)
        client = "" if request.client is None else request.client.host
        if not (_is_in(client, trusted) or (believes_socket and request.client is None)):
            raise Unknown(f"only the proxy may ask, and {client or 'this client'} is none that is trusted")
        if len(given) != 1 or not given[0].strip() or not given[0].isprintable():
            raise Unknown(f"the proxy has to name the user once, in the header {header}")
        name = given[0].strip()
        if users is None:
            return Actor(name, frozenset(roles))
        if name not in users:
            raise Unknown("the users file doesn't have this user")
        return Actor(name, users[name].roles)

    return identify


def _is_in(client: str, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return False
    return any(address in one for one in networks)


def by_password(users: Mapping[str, User]) -> Identify:
    """Users of a users file, by name and password (HTTP Basic)."""
    challenge = 'Basic realm="seriatim", charset="UTF-8"'
    key = secrets.token_bytes(32)
    known: dict[bytes, str] = {}  # a digest with the key of this process, so that scrypt is paid once a user
    nobody = User("", frozenset(), secrets.token_bytes(_SALT), b"")
    trying = Threads(_TRIED, _TRIES)

    async def identify(request: Request) -> Actor:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            raise Unknown("log in with your name and password", challenge)
        try:
            name, colon, password = base64.b64decode(text, validate=True).decode().partition(_SEPARATOR)
        except (binascii.Error, ValueError):
            raise Unknown("the header Authorization can't be read", challenge) from None
        digest = hmac.digest(key, text.encode(), sha256)
        if colon and known.get(digest) == name and name in users:
            return Actor(name, users[name].roles)
        user = users.get(name, nobody)  # a name that isn't there takes as long
        if not hmac.compare_digest(await trying.call(_hashed, password, user.salt), user.hash):
            raise Unknown("this is not the password of that user", challenge)
        if len(known) > 1000:
            known.clear()
        known[digest] = name
        return Actor(user.name, user.roles)

    return identify


def _hashed(password: str, salt: bytes) -> bytes:
    return scrypt(password.encode(), salt=salt, n=_N, r=_R, p=_P, maxmem=_MOST_MEMORY, dklen=32)


def line_of(name: str, roles: Iterable[str], password: str) -> str:
    if not name or not name.isprintable() or _SEPARATOR in name or name != name.strip() or name.startswith("#"):
        raise UsageError(f"a user can't be named {shown(name)}", remedy="printable text without a colon")
    if len(password) < 8:
        raise UsageError("the password is too short", remedy="at least 8 characters")
    salt = os.urandom(_SALT)
    hashed = _SEPARATOR.join(["scrypt", *(base64.b64encode(one).decode() for one in (salt, _hashed(password, salt)))])
    order = [one for one in ROLES if one in checked_roles(roles)]
    return f"{name}:{','.join(order)}:{hashed}"


def read_users(path: Path) -> dict[str, User]:
    """The users of a file, a line each: ``name:roles:scrypt:salt:hash``; empty lines and ``#`` are passed over."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the users file {path}: {error}") from None
    if mode & 0o077:
        raise UsageError(f"others may read or write the users file {path}", remedy=f"chmod 600 {path}")
    found: dict[str, User] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f"{path}:{number}"
        match line.split(_SEPARATOR):
            case [name, roles, "scrypt", salt, hashed] if name and name not in found:
                try:
                    user = User(name, checked_roles(roles.split(",")), base64.b64decode(salt), base64.b64decode(hashed))
                except binascii.Error:
                    raise UsageError("the salt or the hash is no Base64", where=where) from None
                found[name] = user
            case _:
                raise UsageError(
                    "this is no line of a user, or the user is there twice",
                    where=where,
                    remedy="seriatim console --users FILE --add-user NAME writes one",
                )
    return found
