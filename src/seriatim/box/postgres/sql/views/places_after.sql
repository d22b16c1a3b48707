-- Purpose: the places of messages, in order of arrival: of the next `most` messages after one, or of one alone, those
-- that fit; with the last message that was read, and how many were. Where none fits, there is one row without a
-- message.
-- Index: spool_pkey, or by the same columns entries_of_message, aside_of_message, history_of_message, unrouted_pkey,
-- whichever has the messages of a status; for each message that is read likewise, and faults_of_message.
WITH candidate AS MATERIALIZED (
    ({messages_after(spool)})
    UNION ({messages_after(entries)})
    UNION ({messages_after(aside)})
    UNION ({messages_after(history)})
    UNION ({messages_after(unrouted)})
    UNION (SELECT %(after_arrival)s::bigint, %(after_position)s::bigint WHERE %(among)s = 'one')
), last AS (
    SELECT arrival_id AS last_arrival, position AS last_position, count(*) OVER () AS read FROM candidate
    ORDER BY arrival_id DESC, position DESC LIMIT 1
), page AS MATERIALIZED (
    SELECT place.*, failed.error
    FROM candidate CROSS JOIN LATERAL (
        SELECT * FROM {schema}.message_places AS one
        WHERE one.arrival_id = candidate.arrival_id AND one.position = candidate.position
        OFFSET 0
    ) AS place
    {last_fault()}
    WHERE {place_fits()}
)
SELECT
    last.last_arrival, last.last_position, last.read, place.arrival_id, place.position,
    {place_columns()}, place.error, later.postponed, later.postponed_until
FROM last LEFT JOIN page AS place ON TRUE
{postponement(place)}
ORDER BY place.arrival_id, place.position, place.queue
