-- Write what is known of numbers of sessions whose locks the transaction has.
INSERT INTO {schema}.entries (
    name, queue, session, number, first_number, state, message_id, digest, attempts, due_at, reservation, fault, changed_at
)
SELECT
    %(name)s, %(queue)s, new.session, new.number, new.first_number, new.state, new.message_id, new.digest, new.attempts,
    new.due_at, new.reservation, new.fault, {STATEMENT_US}
FROM unnest(
    %(session)s::text[], %(number)s::bigint[], %(first_number)s::bigint[], %(state)s::smallint[], %(message_id)s::text[],
    %(digest)b::bytea[], %(attempts)s::integer[], %(due_at)s::bigint[], %(reservation)s::text[], %(fault)s::text[]
) AS new (session, number, first_number, state, message_id, digest, attempts, due_at, reservation, fault)
ON CONFLICT (name, queue, session, number) DO UPDATE SET
    first_number = excluded.first_number, state = excluded.state, message_id = excluded.message_id,
    digest = excluded.digest, attempts = excluded.attempts, due_at = excluded.due_at,
    reservation = excluded.reservation, fault = excluded.fault, changed_at = excluded.changed_at
