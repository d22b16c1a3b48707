"""Kinds of fields that a declaration of a box or a pipeline has, beside those of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.kernel.fields import Kind, Text, Wrong
from seriatim.kernel.groups.numbers import Sequence
from seriatim.kernel.groups.policy import Policy, policy_from, remembering
from seriatim.pipeline.declared.queue_level import QUEUE, TYPE, UNFIT
from seriatim.pipeline.text.name import checked_name

#: The remedy for what is no filter.
FILTER = "a filter, such as \"type = 'check-in'\""


@dataclass(frozen=True)
class Name(Kind):
    """A name; `what`: of what, such as ``a queue's name``."""

    what: str

    def check(self, value: Any) -> str:
        try:
            return checked_name(value, self.what)
        except UsageError as error:
            raise Wrong(error.remedy, error.what) from None


@dataclass(frozen=True)
class OwnName(Kind):
    """The name of the declaration itself, with which its other errors begin."""

    what: str

    def check(self, value: Any) -> str:
        return checked_name(value, self.what, "name")


@dataclass(frozen=True)
class OfPolicy(Kind):
    def check(self, value: Any) -> Any:
        if not isinstance(value, Policy):
            raise Wrong("such as Fifo() or Standard(hole_timeout=100)", f"{shown(value)} is not a policy", bare=True)
        return value

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        return {key: _stored(value)}

    def restored(self, key: str, stored: Mapping[str, Any]) -> Policy:
        return _restored(stored[key])


@dataclass(frozen=True)
class OfSequence(Text):
    """The property of the number, or a `Sequence` of properties and filters; one that says nothing but the property is that."""

    def check(self, value: Any) -> Any:
        if not isinstance(value, Sequence):
            return super().check(value)
        for name, given in value.given().items():
            if callable(given):
                raise Wrong(
                    f"give {'a filter' if name in value.filters else 'the name of a property'}",
                    f"{name}: functions of a value are for a Sequencer",
                )
        if value.says() or value.by is not None:
            return value if value.says() or isinstance(value.by, tuple) else super().check(value.by)
        raise Wrong("name the property of the number: by", "it says nothing")

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        return {key: value.given() if isinstance(value, Sequence) else value}

    def restored(self, key: str, stored: Mapping[str, Any]) -> Any:
        found = stored[key]
        return Sequence(**found) if isinstance(found, Mapping) else found


@dataclass(frozen=True)
class ByType(Kind):
    """Whether each message type is ordered by itself: None if not, else the policies of single types, which may be none."""

    def check(self, value: Any) -> Any:
        if isinstance(value, bool):
            return {} if value else None
        if not isinstance(value, Mapping):
            raise Wrong('True, or policies: {"order": Standard()}')
        for kind, policy in value.items():
            try:
                checked_name(kind, "a message type")
            except UsageError as error:
                raise Wrong(error.remedy, error.what) from None
            if any(one in kind for one in UNFIT):
                raise Wrong("such a type has the queue's policy", f"{kind!r} has {' or '.join(UNFIT)}")
            if not isinstance(policy, Policy):
                raise Wrong("such as Fifo() or Standard()", f"{shown(policy)} is not a policy")
        return dict(value)

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        policies = {kind: _stored(one) for kind, one in (value or {}).items()}
        return {"level": QUEUE if value is None else TYPE, "policies": policies}

    def restored(self, key: str, stored: Mapping[str, Any]) -> Any:
        if stored["level"] == QUEUE:
            return None
        return {kind: _restored(one) for kind, one in stored["policies"].items()}

    def keys(self, key: str) -> tuple[str, ...]:
        return ("level", "policies")


def _stored(policy: Policy) -> dict[str, Any]:
    policy = remembering(policy)  # as it is judged, so that it is shown
    return {"name": policy.name, **{one.name: getattr(policy, one.name) for one in fields(policy)}}


def _restored(stored: Mapping[str, Any]) -> Policy:
    return remembering(policy_from(stored["name"], **{key: value for key, value in stored.items() if key != "name"}))
