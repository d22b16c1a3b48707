"""Pipelines that run once in each region: which run delivers, what is delivered, and the tables that get it in the same transaction.

The lease of a pipeline is a claim with a random id and a version, like that of a session. A delivery ends with one message to the server,
with the rows, the numbers, the check of the lease and the commit: a holder that stops before it has changed nothing, and one that stops
after it holds no locks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field
from datetime import datetime
from typing import Any, cast
from uuid import uuid4

import psycopg
from psycopg import errors, sql

from seriatim.box.postgres.array_text import written
from seriatim.box.views import listing
from seriatim.box.views.filtered import filtered
from seriatim.box.views.listing import Listing
from seriatim.errors import EnvironmentProblem, LeaseLost, SchemaMismatch, UsageError, shown
from seriatim.kernel.values.time import maybe_moment_of
from seriatim.pipeline.text.command import command
from seriatim.regions.journal.connections import Connections, JournalConnection
from seriatim.regions.journal.operators import write_log
from seriatim.regions.journal.statements import JournalStatements, send_all
from seriatim.regions.journal.values import LONGEST_LEASE_S, Token

#: The text that the statement returns when the lease is another's; it can't be read as a number.
_LOST = "the lease is another's"
#: The longest wait for the answer to a statement with rows.
_WRITING_S = 60.0
#: The groups of one statement.
_PORTION = 10_000


@dataclass(frozen=True, slots=True)
class PipelineClaim:
    """The right of one run to deliver the released messages of its pipeline."""

    pipeline: str
    id: str = field(repr=False)
    #: For other systems: a later claim has a higher one.
    token: Token
    lease: int


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline that runs in two regions.

    Args:
        pipeline: its name.
        region: the region that delivers; None: no run has the lease.
        holder: the machine and the process there.
        held_since: when they took the lease.
        lease_until: when it ends, unless it is renewed.
        is_over: whether that has passed, so that another run may take it.
        take_overs: how often a run took it from one that said nothing any more.
        version: of the present claim, or the last one.
    """

    pipeline: str
    region: str | None
    holder: str | None
    held_since: datetime | None
    lease_until: datetime | None
    is_over: bool
    take_overs: int
    version: int


@dataclass(frozen=True, slots=True)
class DeliveredFilter(Listing):
    """The list of groups of a pipeline with the numbers through which they are delivered."""

    pipeline: str = listing.given("The name of the pipeline.", MISSING)
    _: KW_ONLY
    destination: str | None = listing.text("groups of this destination")
    group: str | None = listing.text("groups with this key")
    limit: int = listing.limit("groups")


@dataclass(frozen=True, slots=True)
class DeliveredView:
    """How far a group of a pipeline is delivered.

    Args:
        destination: the destination.
        group: the key of the group.
        through: all its numbers up to this one are delivered.
        delivered_at: when the last of them was.
    """

    destination: str
    group: str
    through: int
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True)
class OutputTable:
    name: str
    #: Its columns that are written, with their types in PostgreSQL.
    columns: Mapping[str, str]

    def insertion(self, names: Sequence[str]) -> sql.Composed:
        """Return the statement that inserts arrays, which are parameters ``c0``, ``c1`` …, into some of the columns."""
        for name in names:
            if name not in self.columns:
                problem = f"rows that wait have a column {name!r}, which isn't declared any more"
                raise SchemaMismatch(problem, where=f"table {self.name}", remedy="promote it until they are delivered")
        places = [sql.Identifier(f"c{at}") for at in range(len(names))]
        arrays = [
            sql.SQL("{}::{}[]").format(sql.Placeholder(f"c{at}"), sql.SQL(self.columns[name]))
            for at, name in enumerate(names)
        ]
        comma = sql.SQL(", ")
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM unnest({}) AS new ({})").format(
            sql.Identifier(*self.name.split(".")), comma.join(map(sql.Identifier, names)), comma.join(places), comma.join(arrays),
            comma.join(places),
        )  # fmt: skip

    @property
    def made_by(self) -> str:
        columns = ", ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
        return f"CREATE TABLE {self.name} ({columns})"


class Pipelines:
    """The pipelines of a journal. Threads share it; each call is a transaction."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def claim(
        self, pipeline: str, region: str, holder: str, *, lease: float, former: PipelineClaim | None = None
    ) -> PipelineClaim | PipelineView:
        length = round(lease * 1_000_000)
        if not 0 < length <= LONGEST_LEASE_S * 1_000_000:
            raise UsageError(f"a lease can't be {shown(lease, 80)} s", remedy="more than 0 s, at most a day")
        ident = str(uuid4())
        parameters = {
            "name": pipeline, "claim": ident, "region": region, "holder": holder, "lease": length,
            "former": None if former is None else former.id,
        }  # fmt: skip

        def work(statements: JournalStatements) -> PipelineClaim | PipelineView:
            _, granted, known = statements.several(
                ("open_pipeline", {"name": pipeline}), ("claim_pipeline", parameters),
                ("list_pipelines", {"name": pipeline}), ends=True,
            )  # fmt: skip
            if granted:
                return PipelineClaim(pipeline, ident, Token(granted[0].incarnation, granted[0].version), length)
            return _view(known[0])

        return self._connections.again(work)

    def renew(self, claim: PipelineClaim) -> bool:
        """Renew a lease; False: it is another's by now."""
        rows = self._connections.again(
            lambda statements: statements.rows("renew_pipeline", **_of(claim), lease=claim.lease)
        )
        return bool(rows)

    def give_back(self, claim: PipelineClaim) -> None:
        """End a lease before its time, so that the other region needn't wait."""
        self._connections.again(lambda statements: statements.do("give_back_pipeline", **_of(claim)))

    def through(self, pipeline: str, destination: str, groups: Sequence[str]) -> dict[str, int]:
        """Return through which numbers groups of a destination are delivered; groups without a delivery are missing."""
        numbers: dict[str, int] = {}
        for at in range(0, len(groups), _PORTION):
            portion = list(groups[at : at + _PORTION])
            place = {"pipeline": pipeline, "destination": destination, "groups": portion}
            rows = self._connections.again(lambda statements, place=place: statements.rows("read_delivered", **place))  # type: ignore[misc]
            numbers.update({row.group_key: row.through for row in rows})
        return numbers

    def deliver(
        self, claim: PipelineClaim, destination: str, through: Mapping[str, int], *, table: OutputTable | None = None,
        rows: Mapping[str, list[Any]] | None = None,
    ) -> None:  # fmt: skip
        """Note through which numbers groups are delivered, and insert rows in the same transaction: all or nothing."""
        groups = list(through)
        noted = {
            "pipeline": claim.pipeline, "destination": destination, "groups": groups,
            "numbers": [through[group] for group in groups],
        }  # fmt: skip

        def work(statements: JournalStatements) -> None:
            connection = cast("JournalConnection", statements.connection)
            connection.patience = max(_WRITING_S, connection.patience or 0)
            try:
                with connection.pipeline():
                    if table is not None and rows:
                        columns = {f"c{at}": values for at, values in enumerate(rows.values())}
                        connection.execute(table.insertion(list(rows)), written(columns))
                        send_all(connection)
                    connection.execute(statements.text("raise_delivered"), written(noted))
                    send_all(connection)
                    kept = {**_of(claim), "lease": claim.lease, "lost": _LOST}
                    connection.execute(statements.text("keep_pipeline"), kept)
                    connection.commit()
            except errors.UniqueViolation as error:  # of the table: the numbers have no such key
                connection.rollback()
                raise UsageError(
                    error.diag.message_primary or str(error),
                    where="" if table is None else f"table {table.name}",
                    remedy="it has rows that this pipeline hasn't delivered, or a key that isn't of a message: mend that",
                ) from None
            except errors.InvalidTextRepresentation as error:
                if _LOST not in str(error):
                    raise
                connection.rollback()
                raise LeaseLost(
                    "another region delivers by now",
                    where=f"pipeline {claim.pipeline!r}",
                    remedy="ask for the lease again",
                ) from None

        self._connections.again(work)

    @filtered(DeliveredFilter)
    def delivered(self, chosen: DeliveredFilter) -> list[DeliveredView]:
        """List through which numbers the groups of a pipeline that runs in both regions are delivered."""
        rows = self._connections.again(lambda statements: statements.rows("list_delivered", **chosen.parameters()))
        return [_delivered(row) for row in rows]

    def forget_delivered(
        self, pipeline: str, destination: str, group: str, *, actor: str, reason: str
    ) -> DeliveredView:
        """Forget how far a group is delivered, because its numbers begin again: an operator has begun it anew in both runs."""

        def work(statements: JournalStatements) -> DeliveredView:
            row = statements.maybe("forget_delivered", pipeline=pipeline, destination=destination, group=group)
            if row is None:
                raise UsageError(
                    f"nothing of a group {shown(group, 80)} is delivered to {shown(destination, 80)}",
                    where=f"pipeline {pipeline!r}",
                    remedy=f"{command('journal', 'delivered', of=pipeline)} lists what is",
                )
            write_log(
                statements, pipeline, destination, group, actor=actor, action="forget delivered", reason=reason,
                detail=f"it was delivered through {row.through}",
            )  # fmt: skip
            return _delivered(row)

        return self._connections.again(work)

    def check_table(self, table: OutputTable) -> None:
        """Check that rows can be inserted into a table: it exists, with these columns, of fitting types, and the role may insert."""
        names = list(table.columns)

        def work(statements: JournalStatements) -> None:
            try:
                statements.connection.execute(table.insertion(names), {f"c{at}": "{}" for at in range(len(names))})
                statements.connection.rollback()
            except psycopg.Error as error:
                statements.connection.rollback()
                raise self._table_error(statements, table, error) from error

        self._connections.again(work)

    def _table_error(self, statements: JournalStatements, table: OutputTable, error: psycopg.Error) -> Exception:
        where = f"table {table.name} of {self._connections.place}"
        text = error.diag.message_primary or str(error)
        match error:
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                return SchemaMismatch("there is no such table", where=where, remedy=table.made_by)
            case errors.UndefinedColumn():
                lacking = [name for name in table.columns if name not in self._columns(statements, table)]
                added = ", ".join(f'ADD COLUMN "{name}" {table.columns[name]}' for name in lacking)
                missing = ", ".join(lacking) or text
                return SchemaMismatch(
                    f"it has no column {missing}", where=where, remedy=f"ALTER TABLE {table.name} {added}"
                )
            case errors.DatatypeMismatch() | errors.CannotCoerce() | errors.UndefinedFunction():
                return SchemaMismatch(text, where=where, remedy=f"it has to take what this one takes: {table.made_by}")
            case errors.InsufficientPrivilege():
                return EnvironmentProblem(text, where=where, remedy=f"GRANT INSERT ON {table.name}")
        return error

    @staticmethod
    def _columns(statements: JournalStatements, table: OutputTable) -> set[str]:
        names = table.name.split(".")
        place = {"schema": names[0] if len(names) > 1 else None, "name": names[-1]}
        return {row.column_name for row in statements.rows("table_columns", **place)}

    def known(self, pipeline: str | None = None) -> list[PipelineView]:
        """Return pipelines by name, with the region that delivers; None: all."""
        return [
            _view(row)
            for row in self._connections.again(lambda statements: statements.rows("list_pipelines", name=pipeline))
        ]


def _of(claim: PipelineClaim) -> dict[str, Any]:
    return {"name": claim.pipeline, "claim": claim.id, "version": claim.token.version}


def _delivered(row: Any) -> DeliveredView:
    return DeliveredView(row.destination, row.group_key, row.through, maybe_moment_of(row.delivered_at))


def _view(row: Any) -> PipelineView:
    is_over = row.lease_until is not None and row.lease_until <= row.now
    return PipelineView(
        row.name, row.region, row.holder, maybe_moment_of(row.held_since), maybe_moment_of(row.lease_until), is_over, row.take_overs,
        row.version,
    )  # fmt: skip
