"""`Gates`: which queues lead to a gate, and which messages a gate, or a queue that has one, doesn't take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seriatim.box.definitions.definition import Definitions
from seriatim.pipeline.bodies.property_values import problem_text
from seriatim.pipeline.types.message import Property
from seriatim.pipeline.types.origin import ORIGIN

_NO_WAY = (None, None, False)
_NO_PLACE = (None, None, None)


class Gates:
    def __init__(self, definitions: Definitions) -> None:
        self._origins = {name: one.declared.name for name, one in definitions.gates.items()}
        self._gate_of = {origin: gate for gate, origin in self._origins.items()}
        names = {*definitions.ways, *self._origins}
        self._on_way = frozenset(one.queue_id for name, one in definitions.queues.items() if name in names)
        ids = {name: one.queue_id for name, one in definitions.queues.items()}
        #: As the table ``ways`` has them: for a gate the name of its origin queue; for a queue on the way the number of the gate, the
        #: name of the origin queue, and whether it is that.
        self._at_gate = {ids[gate]: origin for gate, origin in self._origins.items() if gate in ids}
        self._to_gate = {
            ids[name]: (ids[str(one.declared.gate_name)], one.declared.name, one.declared.name == name)
            for name, one in definitions.ways.items()
            if name in ids and one.declared.gate_name in ids
        }

    def __bool__(self) -> bool:
        return bool(self._origins)

    def __contains__(self, queue: object) -> bool:
        return queue in self._origins or queue in self._gate_of

    def is_gate(self, queue: str) -> bool:
        return queue in self._origins

    def lead(self, queue_ids: Iterable[int]) -> bool:
        """Whether one of these queues leads to a gate, or is one."""
        return bool(self._on_way) and not self._on_way.isdisjoint(queue_ids)

    def place(self, queue_id: int, context: Mapping[str, Property]) -> tuple[int | None, Property, Property]:
        """The place at a gate of a message in a queue, as ``place_at_gate`` tells it in the box."""
        origin = context.get("origin_queue")
        if origin is not None and self._at_gate.get(queue_id) == origin:
            return queue_id, None, context.get("origin_ordinal")
        gate_id, name, is_origin = self._to_gate.get(queue_id, _NO_WAY)
        if origin is not None and name == origin:
            return gate_id, context.get("origin_group"), context.get("origin_ordinal")
        return (gate_id, None, None) if is_origin else _NO_PLACE

    def problem(self, queue: str, context: Mapping[str, Property]) -> str | None:
        """Why a gate, or a queue that has one, doesn't take a message with these properties; None: it does."""
        origin = context.get("origin_queue")
        if (wanted := self._origins.get(queue)) is not None:
            if origin == wanted and all(context.get(name) is not None for name in ORIGIN):
                return None
            whose = "" if origin is None else f" of queue {wanted!r}, but of {origin!r}"
            return problem_text(
                f"no origin{whose}: a gate takes what results from messages of {wanted!r}; publish it in the session that has such"
                " a message in hand, or return it from the handler"
            )
        if isinstance(origin, str) and origin != queue and (gate := self._gate_of.get(origin)) is not None:
            return problem_text(f"already on its way to gate {gate!r}")
        return None
