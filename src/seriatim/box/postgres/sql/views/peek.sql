-- Purpose: the first messages of a queue or of one of its groups, by group, in the order in which they would leave.
-- Right: see_bodies.
-- Index: entries_of_group, spool_pkey, tickets_arrival_id_key.
-- Only the messages of the first groups are looked up: of as many groups as have that many messages.
SELECT
    entry.group_key,
    CASE entry.status WHEN 'placed' THEN 'held' ELSE entry.status::text END AS status,
    nullif(entry.visible_at, 'infinity') AS visible_at,
    entry.subscription_ids <> '{}' AND entry.subscription_ids <@ (
        SELECT coalesce(array_agg(subscription_id), '{}') FROM {schema}.known_subscriptions
        WHERE queue_id = %(queue_id)s AND state <> 'started'
    ) AS waits,
    entry.sequence,
    entry.ordinal,
    entry.late,
    stored.message_id, stored.type, stored.location, stored.epoch, stored.number, stored.content_type, stored.received_at,
    stored.context::text, stored.property_types, stored.body,
    entry.attempt,
    entry.priority,
    entry.subscription_ids,
    stored.parts,
    entry.meaning,
    entry.edited,
    entry.entry_id
FROM {schema}.entries AS entry
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.stored_messages AS one WHERE one.arrival_id = entry.arrival_id AND one.position = entry.position LIMIT 1
) AS stored
WHERE entry.queue_id = %(queue_id)s AND (%(group)s::text IS NULL OR entry.group_key = %(group)s)
    AND entry.group_key <= (
        SELECT max(first.group_key) FROM (
            SELECT one.group_key FROM {schema}.entries AS one
            WHERE one.queue_id = %(queue_id)s AND (%(group)s::text IS NULL OR one.group_key = %(group)s)
            ORDER BY one.group_key LIMIT %(limit)s
        ) AS first
    )
ORDER BY
    entry.group_key, array_position(ARRAY['in_hand', 'queued', 'held', 'placed', 'faulted', 'arrived'], entry.status::text),
    CASE entry.status WHEN 'placed' THEN entry.sequence ELSE entry.ordinal END,
    -- Of positions the number is NULL, and the rest of the meaning is the position.
    CASE entry.status WHEN 'held' THEN entry.sequence END, CASE entry.status WHEN 'held' THEN entry.meaning[5:] END, stored.stamp, entry.serial
LIMIT %(limit)s
