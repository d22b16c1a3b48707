-- Purpose: the messages of an open place of a gate's group, that are on the way to the gate, at most `most`: the queue
-- of each, why it isn't done, and its last fault. `messages`: how many there are. First those that failed for good,
-- then the oldest in their queues.
-- Index: entries_on_way; for each message entries_pkey, spool_pkey, faults_of_entry.
WITH alive AS MATERIALIZED (
    SELECT
        entry.entry_id, entry.arrival_id, entry.position, entry.subscription_ids,
        to_timestamp((entry.rank + (entry.priority - 5) * 10000000) / 1e6) AS since,
        count(*) OVER () AS messages, row_number() OVER (ORDER BY entry.status <> 'faulted', entry.entry_id) AS nth
    FROM {schema}.entries AS entry
    WHERE entry.gate_id = %(gate_id)s AND entry.gate_id <> entry.queue_id
        AND coalesce(entry.origin_group, entry.group_key) = %(group_key)s
        AND coalesce(entry.origin_number, entry.ordinal) = %(number)s
    ORDER BY nth LIMIT %(most)s
)
SELECT
    stored.message_id, stored.type, its.queue, its.group_key AS "group", its.why, alive.since, its.until, failed.error,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.known_subscriptions AS one
        WHERE its.why = 'stopped' AND one.subscription_id = ANY (alive.subscription_ids) ORDER BY 1
    ) AS subscriptions,
    alive.messages
FROM alive
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.not_done AS one WHERE one.entry_id = alive.entry_id LIMIT 1
) AS its
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.spool AS one WHERE one.arrival_id = alive.arrival_id AND one.position = alive.position LIMIT 1
) AS stored
LEFT JOIN LATERAL (
    SELECT one.error_class || ': ' || one.error AS error FROM {schema}.faults AS one
    WHERE one.entry_id = alive.entry_id ORDER BY one.fault_id DESC LIMIT 1
) AS failed ON TRUE
ORDER BY alive.nth
