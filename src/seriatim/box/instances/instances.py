"""Instances: a running handler's state for one group, kept from message to message.

The turn that hands out the first matching message of a group creates the instance. Turns of a group follow each other,
so two first messages create one instance, and publishers don't wait. Nothing is written before the message is done; its
transaction then saves, changes or deletes the instance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.correlation import key_of
from seriatim.box.definitions.definition import BoxQueue, BoxSubscription, Definitions
from seriatim.box.definitions.route import router_of
from seriatim.box.notice import MessageFailed, dead
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import ActionRefused, Unavailable, UsageError, shown
from seriatim.kernel.groups.sequence import key_problem
from seriatim.pipeline.types.message import Received

_ENDED = "its instance has ended"


class _Stored(NamedTuple):
    """An instance as the transaction sees it. `version`: None if there is none. `added`: how many of the new values there are."""

    text: str
    version: int | None
    added: int = 0


class Instance:
    """The running instance of one group; see `Session.instance`. Completing its message saves its state.

    Attributes:
        id: its number, which no other instance of the box ever has.
        queue: the queue's name.
        group: the key of its group: the value of the first property in its starting subscription's `correlate`.
        subscription: the name of the starting subscription that made it.
        starts: the handler of its messages, as ``module:name``.
        is_new: whether the message that was received starts it.
    """

    def __init__(
        self,
        number: int,
        queue: BoxQueue,
        group: str,
        *,
        starting: BoxSubscription,
        definitions: Definitions,
        kept: tuple[str, int] | None,
        added: Mapping[str, set[str]],
    ) -> None:
        self.id = number
        self.queue = queue.declared.name
        self.group = group
        self.subscription = starting.declared.name
        self.starts = str(starting.declared.starts)
        self.is_new = kept is None
        self._queue_id = queue.queue_id
        self._starting = starting
        self._types = router_of(definitions).properties
        self.stored = _Stored("{}", None) if kept is None else _Stored(*kept)
        self._state: dict[str, Any] = json.loads(self.stored.text)
        self._added = added
        self._adding: dict[tuple[str, str], None] = {}
        self._ended = False

    @property
    def state(self) -> dict[str, Any]:
        """The state: a dictionary of JSON values, at first empty. Change it, or set another dictionary.

        Raises:
            UsageError: the new state isn't a mapping.
        """
        return self._state

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping):
            raise UsageError(f"the state of an instance can't be {type(state).__name__}", remedy="give a dictionary")
        self._state = dict(state)

    @property
    def ended(self) -> bool:
        """Whether `end` was called."""
        return self._ended

    def correlate(self, **values: object) -> None:
        """Lead messages with one of these values to this instance, whatever their type, from the commit on.

        If a subscription leads a message to the queue, and the message has its own group, it goes to that group.

        Args:
            values: values by property name; the properties are in the starting subscription's `correlate`. Further calls may
                add more values of a property.

        Raises:
            UsageError: the starting subscription doesn't name the property, or the value doesn't have its type.
            ActionRefused: when the message is done: another instance of the queue has the value.
        """
        allowed = self._starting.declared.correlate[1:]
        for name, value in values.items():
            if name not in allowed:
                raise UsageError(
                    f"an instance of {self.subscription!r} can't add {name!r}",
                    remedy=f"one of {', '.join(allowed)}" if allowed else "name it in the subscription's correlate",
                )
            text = key_of(value, self._types[name])
            if text is None or key_problem(text):
                raise UsageError(f"{name} can't be {shown(value, 80)}: it isn't a {self._types[name]}, or too long")
            if text not in self._added.get(name, ()):
                self._adding[name, text] = None

    def end(self) -> None:
        """End the instance when its message is done. The next starting message of the group starts another instance."""
        self._ended = True

    def leads(self, message: Received) -> bool:
        """Whether a message has a value that the instance has added. Values of properties that no longer exist don't count."""
        return any(
            name in self._types and key_of(message.context.get(name), self._types[name]) in texts
            for name, texts in self._added.items()
        )

    def save(self, transaction: Transaction) -> None:
        """Store the instance's changes since the last call, in the transaction; its group is locked.

        Raises:
            UsageError: JSON can't represent the state.
            ActionRefused: a value leads to another instance.
            Unavailable: another transaction has changed the instance.
        """
        text, version, added = self.stored
        if self._ended:
            if version is not None:
                parameters = {"of_instance": self.id, "of_queue": self._queue_id, "known_version": version}
                if not transaction.value("end_instance", **parameters):
                    raise self._changed()
                self.stored = _Stored(text, None)
            return
        now, adding = self._written(), list(self._adding)
        if version is not None and now == text and len(adding) == added:
            return
        named = {
            "of_instance": self.id, "of_queue": self._queue_id, "of_group": self.group,
            "of_subscription": self._starting.subscription_id, "known_version": version,
            "new_state": now if version is None or now != text else None,
            "properties": [name for name, _ in adding[added:]], "new_values": [value for _, value in adding[added:]],
        }  # fmt: skip
        kept, taken_by = transaction.one("keep_instance", **named)
        if not kept:
            raise self._changed()
        if taken_by is not None:
            problem = f"{taken_by} leads to another instance of queue {self.queue!r} already"
            raise ActionRefused(problem, where=self._where, remedy="a value is one instance's until that ends")
        self.stored = _Stored(now, (version or 0) + 1, len(adding))

    def _written(self) -> str:
        try:
            text = json.dumps(self._state, allow_nan=False, ensure_ascii=False)
            text.encode()  # which no half of a surrogate pair can be, and no page could show one
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"the state can't be kept as JSON: {error}"
            raise UsageError(
                problem, where=self._where, remedy="texts, finite numbers, booleans, None, lists, mappings"
            ) from error
        return text

    def _changed(self) -> Unavailable:
        return Unavailable(
            "the instance was changed or ended by somebody else", where=self._where, remedy="roll back and repeat"
        )

    @property
    def _where(self) -> str:
        return f"instance {self.id}, group {self.group!r} of queue {self.queue!r}"

    def __repr__(self) -> str:
        return f"<Instance {self.id} of {self.subscription!r}, group {self.group!r}{', ended' if self._ended else ''}>"


class Instances:
    def __init__(self, transaction: Transaction, queue: str, definitions: Definitions) -> None:
        self._transaction = transaction
        self._queue = definitions.queue(queue)
        self._definitions = definitions

    def find(self, delivery: Delivery) -> tuple[Instance | None, bool]:
        (message,) = delivery.messages
        group = str(delivery.group)
        parameters = {"of_queue": self._queue.queue_id, "of_group": group}
        row = self._transaction.one("find_instance", **parameters)
        instance = self._instance(group, message, row)
        if self._own_group(message) == group:
            return instance, False
        # It came by a value. If the group's instance doesn't have the value, the message was for a former instance there.
        if instance is not None and instance.leads(message):
            return instance, False
        named = parameters | {
            "of_message": message.message_id, "of_entry": delivery.entry_ids[0], "of_ordinal": message.ordinal, "why": _ENDED
        }  # fmt: skip
        self._transaction.do("set_stray_aside", **named)
        other = replace(
            dead(self._queue.declared.name, group, _ENDED), attempts=message.attempt - 1, ordinal=message.ordinal
        )
        self._transaction.notice(MessageFailed(message, other))
        delivery.done()
        return None, True

    def _instance(self, group: str, message: Received, row: tuple[Any, ...]) -> Instance | None:
        number, subscription_id, state, version, pairs = row
        definitions = self._definitions
        if version is None:
            starting = definitions.starting[self._queue.declared.name]
            name = next((subscription for subscription in message.subscriptions if subscription in starting), None)
            if name is None or self._own_group(message) != group:
                return None
        elif (name := definitions.names.get(subscription_id)) is None:
            problem = "the subscriptions have changed while the message was received"
            raise Unavailable(problem, where=f"instance {number}", remedy="roll back and repeat")
        added: dict[str, set[str]] = {}
        for known, value in pairs or ():
            added.setdefault(known, set()).add(value)
        return Instance(
            number, self._queue, group, starting=definitions.subscriptions[name], definitions=definitions,
            kept=None if version is None else (state, version), added=added,
        )  # fmt: skip

    def _own_group(self, message: Received) -> str | None:
        name = str(self._queue.declared.group.by)
        return key_of(message.context.get(name), router_of(self._definitions).properties[name])
