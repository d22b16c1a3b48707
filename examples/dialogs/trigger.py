"""A table's trigger begins dialogs and sends in them, in SQL; a rollback takes the row and the message back together.

python -m examples.dialogs.trigger [DSN]
"""

from __future__ import annotations

import sys
from contextlib import suppress

from psycopg import sql

import seriatim as sq

TRIGGER = sql.SQL("""
    CREATE TABLE IF NOT EXISTS customers (name text);
    CREATE OR REPLACE FUNCTION tell_of_customer() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        handle uuid := {schema}.begin_dialog('Customers', 'Mailing', 'Welcome');
    BEGIN
        PERFORM {schema}.send(handle, 'NewCustomer', convert_to(NEW.name, 'UTF8'), 'text/plain');
        PERFORM {schema}.end_dialog(handle);
        RETURN NULL;
    END $$;
    CREATE OR REPLACE TRIGGER tell AFTER INSERT ON customers FOR EACH ROW EXECUTE FUNCTION tell_of_customer();
""")


class _ChangedMind(Exception):
    pass


def main(box: sq.MessageBox) -> list[tuple[str, bytes]]:
    """Insert some customers, one of them in a transaction that is rolled back; what came of it, as (type, body)."""
    box.define(
        sq.Contract("Welcome", {"NewCustomer": "initiator"}),
        sq.Service("Customers", queue="customers"),
        sq.Service("Mailing", queue="mailing", contracts=["Welcome"]),
    )
    with box.session() as tx:
        tx.connection.execute(TRIGGER.format(schema=sql.Identifier(box.schema)))
    with box.session() as tx:
        tx.connection.execute("INSERT INTO customers VALUES ('Ada'), ('Grace')")
    with suppress(_ChangedMind), box.session() as tx:
        tx.connection.execute("INSERT INTO customers VALUES ('Nobody')")
        raise _ChangedMind
    found = []
    with box.session() as tx:
        while delivery := tx.receive("mailing", limit=10):
            for message in delivery:
                found.append((message.type, message.body))
                if message.type == "EndDialog":
                    tx.end(message.dialog.handle)
    return found


if __name__ == "__main__":
    with sq.MessageBox.open(*sys.argv[1:]) as opened:
        print(main(opened))
