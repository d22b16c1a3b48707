"""Roles for tests: each can log in, has rights, and opens the box as its own."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
from psycopg import sql

import seriatim as sq

__all__ = ["CATALOGUE", "as_role", "dsn_of", "in_sql", "make", "make_owner", "rows"]

#: What of dialogs each role with a right reads, as far as its rights go.
CATALOGUE = frozenset({"message_types", "contracts", "services", "links", "link_streams", "transmission"})


def make(box, *names, options="LOGIN"):
    """Make roles of these names; they go with the database."""
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("CREATE ROLE {} " + options).format(sql.Identifier(name)))


def make_owner(dsn, owner, member):
    """Make a role that may make boxes in a database, and a member of it; return their DSNs."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {owner} LOGIN; CREATE ROLE {member} LOGIN IN ROLE {owner}")
        connection.execute(f"GRANT CREATE ON DATABASE {connection.info.dbname} TO {owner}")
    return dsn.replace("seriatim@", f"{owner}@"), dsn.replace("seriatim@", f"{member}@")


def dsn_of(box, name):
    """The DSN by which a role reaches the box."""
    return box.dsn.replace("seriatim@", f"{name}@")


@contextmanager
def as_role(box, name):
    """The box, opened by a role."""
    with sq.MessageBox.open(dsn_of(box, name), schema=box.schema) as own:
        yield own


def in_sql(box, name, statement, parameters=()):
    """What a statement answers to a role, in a transaction of its own; ``box.`` stands for the schema."""
    with psycopg.connect(dsn_of(box, name), autocommit=True) as connection:
        cursor = connection.execute(statement.replace("box.", f"{box.schema}."), parameters)
        return cursor.fetchall() if cursor.description else []


def rows(box, statement, parameters=()):
    """The same for the owner of the box."""
    return in_sql(box, "seriatim", statement, parameters)
