-- Purpose: write down which messages of one group were put back, a row for each; answers, by their entries, with the
-- numbers of the rows and with what each is now.
-- Caller: requeue.py, after the group was judged.
-- Locks: none.
-- Index: entries_pkey, aside_pkey, spool_pkey.
WITH moved AS (
    SELECT
        goes.*, coalesce(entry.status, refused.disposition) AS now,
        coalesce(entry.arrival_id, refused.arrival_id) AS arrival_id, coalesce(entry.position, refused.position) AS position
    FROM unnest(
        %(entry_ids)s::bigint[], %(dispositions)s::text[], %(places)s::text[]
    ) WITH ORDINALITY AS goes (entry_id, status, place, nth)
    LEFT JOIN {schema}.entries AS entry USING (entry_id)
    LEFT JOIN {schema}.aside AS refused USING (entry_id)
), logged AS (
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
    SELECT
        %(actor)s, 'requeue', %(queue)s, %(group_key)s, %(reason)s,
        jsonb_build_object(
            'entry_id', moved.entry_id, 'message_id', stored.message_id, 'status', moved.status, 'place', moved.place
        )
    FROM moved JOIN {schema}.spool AS stored USING (arrival_id, position)
    ORDER BY moved.nth
    RETURNING operation_id, (details ->> 'entry_id')::bigint AS entry_id
)
SELECT logged.operation_id, moved.entry_id, moved.place, moved.now
FROM logged JOIN moved USING (entry_id)
ORDER BY moved.nth
