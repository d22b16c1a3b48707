"""The level at which a queue orders: the whole queue, or each message type by a policy of its own.

If a queue orders by type, a group's key begins with the type. So code that finds groups by their keys works for both levels.
"""

from __future__ import annotations

QUEUE, TYPE = "queue", "type"
#: The separator of type and key, and the escape character in a type. A type with a policy of its own contains neither.
_BETWEEN, _ESCAPE = "/", "%"
UNFIT = (_BETWEEN, _ESCAPE)


def group_of_type(kind: str, key: str) -> str:
    plain = kind.replace(_ESCAPE, "%25").replace(_BETWEEN, "%2F")
    return f"{plain}{_BETWEEN}{key}"


def type_of(group: str) -> str:
    """The type with which a key begins, in its escaped form."""
    return group.partition(_BETWEEN)[0]
