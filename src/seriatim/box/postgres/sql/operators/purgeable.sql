-- Purpose: the rows that a clean-up would delete: counts, and bytes by the mean size of a row. `history` and `messages`
-- are counted up to the moments of the queues; a message that another entry refers to, too, is counted nevertheless. So
-- is the newest fault of a message that is there.
-- Index: history_pkey, message_ids_by_age, and those of purge_messages.sql.
WITH done AS (
    SELECT sum((
        SELECT count(*) FROM {schema}.history AS done
        WHERE done.queue_id = wanted.queue_id AND done.done_at < wanted.before
    ))::bigint AS entries
    FROM unnest(%(queue_ids)s::integer[], %(befores)s::timestamptz[]) AS wanted (queue_id, before)
), loose AS (
    SELECT count(DISTINCT (arrival_id, position)) AS messages FROM {schema}.dropped AS message
    WHERE EXISTS (
        SELECT FROM {schema}.spool AS stored
        WHERE stored.arrival_id = message.arrival_id AND stored.position = message.position
    ) AND {is_loose()}
), ids AS (
    SELECT count(*) AS message_ids FROM {schema}.message_ids WHERE published_at < %(ids_before)s
), sizes AS (
    SELECT
        split_part(part.relname, '_', 1) AS kind,
        sum(pg_total_relation_size(part.oid)) / greatest(sum(CASE
            WHEN part.reltuples > 0 THEN part.reltuples::float8
            WHEN part.relname = 'spool' THEN (SELECT count(*) FROM {schema}.spool)
            WHEN part.relname = 'message_ids' THEN (SELECT count(*) FROM {schema}.message_ids)
            WHEN part.relname = 'history_rest' THEN (SELECT count(*) FROM {schema}.history)
            ELSE 0 END), 1) AS mean
    FROM pg_class AS part
    WHERE part.relnamespace = '{schema}'::regnamespace AND part.relkind = 'r'
        AND (part.relname IN ('spool', 'message_ids') OR part.relispartition)
    GROUP BY kind
)
SELECT
    loose.messages + coalesce(done.entries, 0) AS messages,
    coalesce(done.entries, 0) AS history,
    ids.message_ids,
    (SELECT count(*) FROM {schema}.faults WHERE at < %(faults_before)s) AS faults,
    (SELECT count(*) FROM {schema}.events WHERE recorded_at < %(events_before)s) AS events,
    (
        (loose.messages + coalesce(done.entries, 0)) * (SELECT mean FROM sizes WHERE kind = 'spool')
        + coalesce(done.entries, 0) * (SELECT mean FROM sizes WHERE kind = 'history')
        + ids.message_ids * (SELECT mean FROM sizes WHERE kind = 'message')
    )::bigint AS size_bytes
FROM done, loose, ids
