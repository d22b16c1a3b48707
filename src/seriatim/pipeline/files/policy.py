"""A policy in YAML: its name under ``policy``, and its parameters beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from seriatim.errors import PolicyError
from seriatim.kernel.groups.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered, policy_from
from seriatim.pipeline.text.section import Section

_POLICIES: Mapping[str, type[Policy]] = {
    kind.name: kind for kind in (BestEffort, Fifo, Standard, UnitOfWork, Unordered)
}
#: The parameters that are durations.
_PERIODS = {"hole_timeout", "settle", "timeout", "window"}


def read_policy(section: Section) -> tuple[type[Policy] | None, Policy | None]:
    """The name of a section's policy, and the policy with the parameters beside it; None for a wrong value."""
    kind = _POLICIES.get(section.choice("policy", _POLICIES, required=True) or "")
    if kind is None:
        _any_parameter(section)
        return None, None
    return kind, _policy(section, kind)


def _policy(section: Section, kind: type[Policy]) -> Policy | None:
    """The policy with the parameters in `section`; each wrong parameter is reported at its place."""
    known = [field.name for field in fields(kind)]
    _foreign_parameters(section, kind, known)
    parameters: dict[str, Any] = {
        key: value for key in known if section.has(key) and (value := section.plain(key)) is not None
    }
    wrong: set[str] = set()
    while True:
        try:
            policy = policy_from(kind.name, **parameters)
        except PolicyError as error:
            if wrong.isdisjoint(error.arguments):  # or one is missing only because its value was wrong
                section.refuse(error, "policy")
            at_fault = next((one for one in error.arguments if one in parameters), None)
            if at_fault is None:
                return None
            wrong.add(at_fault)
            del parameters[at_fault]
        else:
            for key in _PERIODS & parameters.keys():
                section.remark_unit(key)
            return None if wrong else policy


def _foreign_parameters(section: Section, kind: type[Policy], known: list[str]) -> None:
    """Read the parameters of this policy, and report parameters of other policies differently from unknown keys."""
    for key in known:
        section.known(key)
    for key in section.names():
        owners = [name for name, other in _POLICIES.items() if key in {field.name for field in fields(other)}]
        if key not in known and owners:
            section.known(key)
            what = f"{kind.name} takes no {key}"
            section.key_fault(key, what, f"{' and '.join(owners)} {'do' if owners[1:] else 'does'}")


def _any_parameter(section: Section) -> None:
    """Without a policy it is unknown which parameters fit: allow those of all policies."""
    for kind in _POLICIES.values():
        for field in fields(kind):
            section.known(field.name)
