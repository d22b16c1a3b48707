-- Claim the next numbers of one session of which the journal knows nothing that isn't over: then there is nothing to judge. No row: ask in full.
WITH taken AS (
    UPDATE {schema}.sessions AS known
    SET
        state = {session.WORKING}, claim = %(claim)s, region = %(region)s,
        version = greatest(known.version, (SELECT claim_floor FROM {schema}.journal)) + 1,
        lease_until = {STATEMENT_US} + %(lease)s::bigint, hole_since = NULL, sent_through = %(last)s,
        used_at = {STATEMENT_US}
    FROM {schema}.queues AS queue
    WHERE known.name = %(name)s AND known.queue = %(queue)s AND known.session = %(session)s
        AND queue.name = %(name)s AND queue.queue = %(queue)s
        AND known.state = {session.IDLE} AND known.sent_through <= known.done_through AND known.forgotten_before IS NULL
        AND known.done_through + queue.increment = %(first)s
        AND coalesce(%(step)s::bigint, queue.increment) = queue.increment
    RETURNING known.session, known.version, queue.increment
), noted AS (
    INSERT INTO {schema}.entries (
        name, queue, session, number, first_number, state, message_id, digest, attempts, changed_at
    )
    SELECT %(name)s, %(queue)s, taken.session, asked.number, asked.number, {entry.KNOWN}, asked.message_id,
        asked.digest, 0, {STATEMENT_US}
    FROM taken
    CROSS JOIN unnest(
        %(numbers)s::bigint[], %(ids)s::text[], %(digests)b::bytea[]
    ) AS asked (number, message_id, digest)
)
SELECT version, (SELECT incarnation FROM {schema}.journal) AS incarnation, increment FROM taken
