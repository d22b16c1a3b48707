"""What a person saw before they acted, as a token: what has changed since isn't acted on."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from seriatim.box.operators.seen import SEEN_BYTES, digest_of
from seriatim.console.guard import Refusal

#: The most things that are acted on at once: the page carries their tokens.
MOST_SEEN = 1000
_LENGTH = SEEN_BYTES * 4 // 3


def seen_number(number: object, *facts: object) -> str:
    return digest_of([number, *facts])


def token_of(seen: Iterable[str]) -> str:
    return "".join(seen)


def tokens_in(token: str) -> set[str]:
    try:
        base64.urlsafe_b64decode(token)
    except (binascii.Error, ValueError):
        raise Refusal(400, "the form doesn't say what was seen", "look at the preview again") from None
    if len(token) % _LENGTH or len(token) > MOST_SEEN * _LENGTH:
        raise Refusal(400, "the form doesn't say what was seen", "look at the preview again")
    return {token[at : at + _LENGTH] for at in range(0, len(token), _LENGTH)}
