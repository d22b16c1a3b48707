"""The identity of a box, and its home: its id, the server that it remembers, and the server on which it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from seriatim.box.postgres.statements import Statements


@dataclass(frozen=True, slots=True)
class BoxIdentity:
    """The identity of a box, the server that it remembers, and the server on which it is now (``…_here``).

    None where it isn't known: the role that owns the box may not ask for it, the server doesn't tell it, or there is none.

    Args:
        id: the id.
        incarnation: counts from 1 how often the box may have gone back in time.
        since: when this incarnation began.
        why_disabled: why the box is disabled; None: it isn't.
        disabled_by: the operator who has disabled it: then nothing is delivered in dialogs, and nothing over links. None: nobody has; or it
            isn't on the server that it remembers, and refuses all but reading.
        is_standby: whether the server is a standby, which nobody can write to.
        system_identifier: PostgreSQL's number of the server, which `initdb` chose and a copy of all files shares.
        database_oid: the number of the database on its server.
        timeline: the timeline of the server's write-ahead log; a standby doesn't tell its own.
        folder: the folder of the embedded PostgreSQL.
    """

    id: UUID
    incarnation: int
    since: datetime
    why_disabled: str | None
    disabled_by: str | None
    is_standby: bool
    system_identifier: int | None
    database_oid: int
    timeline: int | None
    folder: str | None
    system_identifier_here: int | None
    database_oid_here: int
    timeline_here: int | None
    folder_here: str | None

    @property
    def enabled(self) -> bool:
        """Whether the box is on the server that it remembers, and nobody has disabled it."""
        return self.why_disabled is None

    @property
    def unknown(self) -> tuple[str, ...]:
        """The facts that would tell a copy, and aren't known here."""
        facts = {"the system identifier": self.system_identifier_here}
        if not self.is_standby:
            facts["the timeline"] = self.timeline_here
        return tuple(name for name, value in facts.items() if value is None)

    @property
    def home(self) -> str:
        """The place of the box, in words."""
        parts = (
            ("system identifier", self.system_identifier_here),
            ("database oid", self.database_oid_here),
            ("timeline", self.timeline_here),
            ("folder", self.folder_here),
        )
        texts = [f"{name} {value}" for name, value in parts if value is not None]
        return ", ".join([*texts, *(["a standby"] if self.is_standby else [])])


def identity_of_box(statements: Statements) -> BoxIdentity | None:
    return statements.maybe("identity_shown", BoxIdentity)
