-- Confirm reservations that aren't over.
UPDATE {schema}.entries AS entry
SET state = {entry.KNOWN}, message_id = new.message_id, digest = new.digest, due_at = NULL, reservation = NULL,
    changed_at = {STATEMENT_US}
FROM unnest(
    %(sessions)s::text[], %(numbers)s::bigint[], %(reservations)s::text[], %(ids)s::text[], %(digests)b::bytea[]
) AS new (session, number, reservation, message_id, digest)
WHERE entry.name = %(name)s AND entry.queue = %(queue)s AND entry.session = new.session AND entry.number = new.number
    AND entry.state = {entry.RESERVED} AND entry.reservation = new.reservation AND entry.due_at > {STATEMENT_US}
    AND EXISTS (
        SELECT 1 FROM {schema}.sessions AS known
        WHERE known.name = entry.name AND known.queue = entry.queue AND known.session = entry.session
            AND known.done_through < entry.number
    )
RETURNING entry.session, entry.number
