"""`Rejected`: a form that was refused. The page on which it stands shows it again, with what was typed and with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from seriatim.box.definitions.queue_settings import SETTINGS
from seriatim.console.guard import Refusal
from seriatim.kernel.groups.verbs import VERBS

#: What people type into forms, in the order in which an error shows it.
_TYPED = ("reason", *(one.name for verb in VERBS.values() for one in verb.takes if one.label), *SETTINGS, "body")


class Rejected:
    def __init__(self, refusal: Refusal, form: Mapping[str, str]) -> None:
        self.status = refusal.status
        self.what = refusal.what
        self.remedy = refusal.remedy
        self.action = form.get("action", "")
        #: Whether the form is there again.
        self.is_shown = False
        self._form = form

    def of(self, **fields: object) -> Mapping[str, str]:
        """Its fields, if it has these; otherwise none: then another form of the page was refused."""
        is_it = all(self._form.get(name, "") == str(value) for name, value in fields.items())
        self.is_shown |= is_it
        return self._form if is_it else {}

    @property
    def typed(self) -> Mapping[str, str]:
        """What was typed into it, by the names of the fields."""
        return {name: self._form[name] for name in _TYPED if self._form.get(name)}
