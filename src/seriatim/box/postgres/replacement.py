"""Replace the functions and views of a schema by the present ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from psycopg import errors, sql

from seriatim.box.postgres.routines import Routine, of_tables, routines, suffixed_heads
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.template import for_schema
from seriatim.errors import SchemaMismatch

_SUFFIX = "__wanted"
_SHOWN = 5


class Replacement:
    """The replacement of the functions and views of a box, in the transaction of a migration."""

    def __init__(self, statements: Statements, present: Collection[str]) -> None:
        self._statements = statements
        self._ours = sorted({*present, *(routine.name for routine in routines())})

    def make_table_functions(self) -> None:
        self._make(of_tables())

    def take_down_parsed(self) -> None:
        """Drop the views, and the functions that PostgreSQL has parsed, so that a migration can change the tables that they read."""
        kept = {routine.name for routine in of_tables()}
        rows = self._statements.rows("parsed_routines", schema=self._statements.schema, names=self._ours)
        self._take_down([row.name for row in rows if row.name not in kept])

    def make_all(self) -> None:
        """Drop functions and views that are gone, or have other arguments or results; make or replace all."""
        known = routines()
        removed = set(self._ours) - {routine.name for routine in known}
        self._take_down([*self._changed(), *removed])
        try:
            with self._statements.connection.transaction():
                self._make(known)
        except errors.InvalidTableDefinition:  # a view has other columns than before
            for routine in known:
                self._make_one(routine)

    def _make_one(self, routine: Routine) -> None:
        try:
            with self._statements.connection.transaction():
                self._make([routine])
        except errors.InvalidTableDefinition:
            self._take_down([routine.name])
            self._make([routine])  # its dependents come later

    def _make(self, routines: Iterable[Routine]) -> None:
        text = "\n".join(routine.text for routine in routines)
        self._statements.connection.execute(for_schema(text, self._statements.schema))

    def _changed(self) -> list[str]:
        schema = self._statements.schema
        with self._statements.connection.transaction(force_rollback=True):
            self._statements.connection.execute(for_schema(suffixed_heads(_SUFFIX), schema))
            return [row.name for row in self._statements.rows("changed_heads", schema=schema, suffix=_SUFFIX)]

    def _take_down(self, names: Sequence[str]) -> None:
        if not names:
            return
        rows = self._statements.rows("dependents", schema=self._statements.schema, names=sorted(names), ours=self._ours)
        if foreign := [row.described for row in rows if not row.is_ours]:
            more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
            raise SchemaMismatch(
                f"functions or views of the schema {self._statements.schema} have to change, and these depend on them: "
                f"{', '.join(foreign[:_SHOWN])}{more}; nothing was changed",
                remedy="drop them, migrate the box, and make them again",
            )
        drops = [f"DROP {row.type} IF EXISTS {row.identity} CASCADE;" for row in rows]
        self._statements.connection.execute(sql.SQL("\n".join(drops)))
