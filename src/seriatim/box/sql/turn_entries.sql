-- Purpose: the entries of a turn's groups, as columns: all that arrived (code 0), in order of commit; all that are
-- held (1), in order of arrival; and the first that are queued (2), by ordinal. `waiting` counts what was published
-- through SQL and isn't routed yet: whoever sees a message that came later sees that, too, for it is one statement.
-- Caller: deliver.py, after it has locked the groups, so that what it reads is younger than the lock.
-- Locks: none.
-- Index: entries_of_group, tickets_arrival_id_key.
SELECT
    array_agg(place) AS places,
    array_agg(code) AS codes,
    array_agg(entry_id) AS entry_ids,
    array_agg(sequence) AS sequences,
    array_agg(size) AS sizes,
    array_agg(rank) AS ranks,
    array_agg(CASE visible_at WHEN 'infinity' THEN 9223372036854775807
        ELSE (extract(epoch FROM visible_at) * 1000000)::bigint END) AS visible,
    array_agg(arrival) AS arrivals,
    array_agg(ordinal) AS ordinals,
    array_agg(late) AS late,
    array_agg(waits) AS waits,
    EXISTS (SELECT FROM {schema}.to_route) AS unrouted
FROM (
    SELECT
        array_position(%(group_keys)s::text[], entry.group_key) - 1 AS place, 0 AS code, entry.*,
        run.stamp AS first_by, entry.position AS then_by
    FROM {schema}.entries AS entry JOIN {schema}.tickets AS run USING (arrival_id)
    WHERE entry.queue_id = %(queue_id)s AND entry.group_key = ANY (%(group_keys)s) AND entry.status = 'arrived'
    UNION ALL
    SELECT
        array_position(%(group_keys)s::text[], entry.group_key) - 1, 1, entry.*, entry.arrival, 0
    FROM {schema}.entries AS entry
    WHERE entry.queue_id = %(queue_id)s AND entry.group_key = ANY (%(group_keys)s) AND entry.status = 'held'
    UNION ALL
    SELECT wanted.place - 1, 2, entry.*, entry.ordinal, 0
    FROM unnest(%(group_keys)s::text[]) WITH ORDINALITY AS wanted (group_key, place)
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.entries
        WHERE queue_id = %(queue_id)s AND group_key = wanted.group_key AND status = 'queued'
        ORDER BY ordinal LIMIT %(at_most)s
    ) AS entry
    ORDER BY place, code, first_by, then_by
) AS found
