"""Find secrets in the text of a port: a text that a box stores and shows must have ``${NAME}`` in their place.

This module knows the names and the forms of secrets. Its results never quote a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from seriatim.pipeline.text.document import Items, Language, Problems, Scalar, Table, Tree, parse

_PORT = Language("port", "http: {url: …}", "ports")
_VARIABLE = re.compile(r"(?<!\$)\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\s\"']*)@")
_QUERY = re.compile(r"[?&;]([^=&;#\s\"']+)=([^&;#\s\"']*)")
_OF_DSN = re.compile(r"(?<![\w?&;])(password|sslpassword)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s'\"]+)", re.IGNORECASE)
_SCHEME = re.compile(r"\s*(basic|bearer|digest|negotiate|aws4-hmac-sha256|token|apikey)\s+\S", re.IGNORECASE)
_WRITTEN = re.compile(r"(?:proxy-)?authorization[\"']?\s*[:=]\s*([^\n,}]*)", re.IGNORECASE)
#: The words of secrets in names of headers and keys, and in an address behind the ?; without case and punctuation.
_WORDS = (
    *("authorization", "cookie", "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey"),
    *("privatekey", "credential", "signature"),
)
_WHOLE = frozenset({"auth", "pass", "pwd", "sig", "xauth", "key"})
#: Keys whose own keys are names of the user's, and whose values are names of properties.
_OF_NAMES = frozenset({"columns", "extensions"})


def secret_in(port: str) -> str | None:
    """Return the secret in the text of a port, in words; None if there is none."""
    problems = Problems(Path("port"))
    tree = parse(port, problems, {}, language=_PORT)
    # Where it isn't a port's, a part of it may not be in the tree.
    whole = tree is not None and problems.only_unset
    found = None if whole else _in_text(port)
    return found or (None if tree is None else next(_in(tree), None))


def _in(tree: Tree, *, headers: bool = False) -> Iterator[str]:
    match tree:
        case Scalar():
            if (found := _in_text(str(tree.written))) is not None:
                yield found
        case Items():
            for one in tree.items:
                yield from _in(one, headers=headers)
        case Table():
            for name, one in tree.entries.items():
                if name in _OF_NAMES:
                    continue
                named = _is_secret(name) and (headers or name != "key")  # which names the key of a table
                if (
                    isinstance(one, Scalar)
                    and _is_plain(one.written)
                    and (named or (headers and _SCHEME.match(one.written)))
                ):
                    yield f"{'the header ' if headers else ''}{name} has a secret in it"
                yield from _in(one, headers=name == "headers")


def _in_text(text: str) -> str | None:
    """Return the secret in an address, a DSN, or a text that can't be read."""
    for scheme, user in _USER.findall(text):
        name, _, password = user.partition(":")
        is_dsn = scheme.lower() in ("postgres", "postgresql")
        if password.strip() and not _is_variable(password):
            return "an address has a password in it"
        if not password.strip() and name and not is_dsn and not _is_variable(name):
            return "an address has in front of its @ what may be a secret"
    for name, value in _QUERY.findall(text):
        if value and _is_secret(unquote(name)) and _is_plain(value):
            return f"an address has a secret in it, {unquote(name)[:40]}"
    for _, value in _OF_DSN.findall(text):
        if not _is_variable(value.strip("'")):
            return "a DSN has a password in it"
    for value in _WRITTEN.findall(text):
        if value.strip(" \"'") and _is_plain(value):
            return "Authorization has a secret in it"
    return None


def _is_secret(name: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return plain in _WHOLE or any(word in plain for word in _WORDS)


def _is_plain(value: object) -> bool:
    """Return whether a value is written out, without variables of the environment."""
    return not _VARIABLE.search(str(value))


def _is_variable(value: str) -> bool:
    return not _VARIABLE.sub("", value)
