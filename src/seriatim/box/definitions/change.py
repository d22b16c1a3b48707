"""`Change`: the fields that a new definition changes, in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seriatim.kernel.fields import keys_of
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files.json_form import to_json
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.schedule import Schedule

#: What can be defined.
Definition = Location | MessageType | Queue | Subscription | Contract | Service | BoxSettings | Schedule | Link


class Kind(StrEnum):
    LOCATION = "location"
    TYPE = "type"
    QUEUE = "queue"
    SUBSCRIPTION = "subscription"
    CONTRACT = "contract"
    SERVICE = "service"
    SETTINGS = "settings"
    SCHEDULE = "schedule"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one definition.

    Args:
        what: ``"added"``, ``"changed"``, ``"dropped"``, ``"started"``, ``"stopped"`` or another word.
        kind: the kind of the definition.
        name: its name.
        fields: the changed fields, by name; a policy's fields are named without ``policy``.
    """

    what: str
    kind: Kind
    name: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = f"{self.what} {self.kind} {self.name}"
        return f"{named}: {', '.join(self.fields)}" if self.fields else named


_KINDS = {
    Location: Kind.LOCATION,
    MessageType: Kind.TYPE,
    Queue: Kind.QUEUE,
    Subscription: Kind.SUBSCRIPTION,
    Contract: Kind.CONTRACT,
    Service: Kind.SERVICE,
    BoxSettings: Kind.SETTINGS,
    Schedule: Kind.SCHEDULE,
    Link: Kind.LINK,
}


def kind_of(definition: Definition) -> Kind:
    return _KINDS[type(definition)]


def changed_fields(old: Definition, new: Definition) -> tuple[str, ...]:
    """The fields in which two declarations differ, by name, of a value within them ``retry.delay``; of policies their parameters."""
    before, after, fields = to_json(old), to_json(new), keys_of(type(old))
    names: list[str] = []
    for key in before:
        if before[key] == after[key]:
            continue
        if key == "policy" and before[key]["name"] == after[key]["name"]:
            names += [one for one in before[key] if before[key][one] != after[key][one]]
        else:
            names.append(fields.get(key, key))
    return tuple(dict.fromkeys(names))
