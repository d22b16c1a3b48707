-- Sessions with what their next number waits for.
SELECT
    known.name, known.queue, known.session, known.done_through, known.sent_through, known.state, known.version,
    known.region, known.claim, known.lease_until, known.hole_since, known.take_overs, known.conflicts, known.used_at,
    CASE WHEN known.hole_since IS NOT NULL THEN greatest(known.hole_through, known.done_through + queue.increment) END
        AS hole_through,
    missing.ids AS missing_ids,
    known.done_through + queue.increment AS next_number, queue.hole_timeout,
    entry.state AS entry_state, entry.message_id, entry.attempts, entry.due_at, entry.fault, {STATEMENT_US} AS now
FROM {schema}.sessions AS known
JOIN {schema}.queues AS queue ON queue.name = known.name AND queue.queue = known.queue
LEFT JOIN {schema}.entries AS entry
    ON entry.name = known.name AND entry.queue = known.queue AND entry.session = known.session
    AND entry.number = known.done_through + queue.increment
LEFT JOIN LATERAL (
    SELECT array_agg(one.message_id ORDER BY one.number) AS ids FROM (
        SELECT part.number, part.message_id FROM {schema}.entries AS part
        WHERE part.name = known.name AND part.queue = known.queue AND part.session = known.session
            AND part.number > known.done_through AND part.number <= known.hole_through
            AND part.message_id IS NOT NULL AND known.hole_since IS NOT NULL
        ORDER BY part.number LIMIT %(most_ids)s
    ) AS one
) AS missing ON TRUE
WHERE (%(name)s::text IS NULL OR known.name = %(name)s)
    AND (%(queue)s::text IS NULL OR known.queue = %(queue)s)
    AND (%(session)s::text IS NULL OR known.session = %(session)s)
    AND (NOT %(not_idle)s::boolean OR known.state <> {session.IDLE})
    AND (
        NOT %(stands)s::boolean OR known.state = {session.SUSPENDED} OR known.hole_since IS NOT NULL
            OR entry.state IN ({entry.RESERVED}, {entry.PENDING})
    )
ORDER BY known.name, known.queue, known.session
LIMIT %(limit)s
