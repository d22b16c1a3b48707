"""The delivery in hand on a connection; sessions on one connection share it, because locks belong to connections."""

from __future__ import annotations

from typing import Any, cast

import psycopg

from seriatim.box.connection.round_trip import OwnConnection
from seriatim.box.turns.delivery import Delivery

#: The attribute of an application's connection for the last received delivery, by the schemas of the boxes.
_IN_HAND = "_seriatim_in_hand"


def held_on(connection: psycopg.Connection[Any], schema: str) -> Delivery | None:
    """The last delivery in the transaction of a connection, of any session."""
    if isinstance(connection, OwnConnection):  # it also knows the effect of a rollback
        return cast("Delivery | None", connection.in_hand)
    return cast("Delivery | None", vars(connection).get(_IN_HAND, {}).get(schema))


def hold(connection: psycopg.Connection[Any], schema: str, delivery: Delivery | None) -> None:
    """Make a delivery known to all sessions on a connection."""
    if isinstance(connection, OwnConnection):
        connection.in_hand = delivery
    else:
        vars(connection).setdefault(_IN_HAND, {})[schema] = delivery
