"""The level at which a queue orders: the whole queue, or each message type by a policy of its own.

Where it is the type, a group's key begins with it: so everything that knows groups by their keys needs to know no more.
"""

from __future__ import annotations

__all__ = ["LEVELS", "QUEUE", "TYPE", "UNFIT", "group_of_type", "type_of"]

QUEUE, TYPE = "queue", "type"
LEVELS = (QUEUE, TYPE)
#: What separates the type from the key, and what stands for it in a type. A type that has a policy of its own has neither.
_BETWEEN, _ESCAPE = "/", "%"
UNFIT = (_BETWEEN, _ESCAPE)


def group_of_type(kind: str, key: str) -> str:
    """The key of a group of one message type."""
    plain = kind.replace(_ESCAPE, "%25").replace(_BETWEEN, "%2F")
    return f"{plain}{_BETWEEN}{key}"


def type_of(group: str) -> str:
    """The type with which a key begins; as it is written there."""
    return group.partition(_BETWEEN)[0]
