-- What is known of numbers that aren't over, and of those that are asked for.
SELECT
    entry.session, entry.number, entry.first_number, entry.state, entry.message_id, entry.digest, entry.attempts, entry.due_at,
    entry.reservation, entry.fault
FROM {schema}.sessions AS known
CROSS JOIN LATERAL (
    SELECT
        one.session, one.number, one.first_number, one.state, one.message_id, one.digest, one.attempts, one.due_at,
        one.reservation, one.fault
    FROM {schema}.entries AS one
    WHERE one.name = %(name)s AND one.queue = %(queue)s AND one.session = known.session AND one.number > known.done_through
    ORDER BY one.number
    LIMIT 1000000
) AS entry
WHERE known.name = %(name)s AND known.queue = %(queue)s AND known.session = ANY(%(sessions)s::text[])
UNION
SELECT
    entry.session, entry.number, entry.first_number, entry.state, entry.message_id, entry.digest, entry.attempts, entry.due_at,
    entry.reservation, entry.fault
FROM unnest(%(asked)s::text[], %(numbers)s::bigint[]) AS asked (session, number)
CROSS JOIN LATERAL (
    SELECT
        one.session, one.number, one.first_number, one.state, one.message_id, one.digest, one.attempts, one.due_at,
        one.reservation, one.fault
    FROM {schema}.entries AS one
    WHERE one.name = %(name)s AND one.queue = %(queue)s AND one.session = asked.session AND one.number >= asked.number
    ORDER BY one.number
    LIMIT 1
) AS entry
WHERE entry.first_number <= asked.number
