-- Purpose: what decides where a dead letter goes: its own numbers, and how many of those that were released after it are
-- still there and were not delivered. A group that was forgotten since, alone or with others of its queue, has given its
-- ordinals anew; one that is not there is as if it were new.
-- Caller: dead_letters.py, under the lock of its group.
-- Locks: none.
-- Index: aside_pkey, known_groups_pkey, entries_of_group, aside_of_group, operator_log_of_group.
SELECT
    letter.sequence,
    letter.ordinal,
    coalesce(known.next, 0) AS following,
    coalesce(known.ordinal, 0) AS last_ordinal,
    (
        SELECT count(*) FROM {schema}.entries AS one
        WHERE one.queue_id = letter.queue_id AND one.group_key = letter.group_key AND one.status = 'queued'
            AND one.ordinal > letter.ordinal
    ) + (
        SELECT count(*) FROM {schema}.aside AS one
        WHERE one.queue_id = letter.queue_id AND one.group_key = letter.group_key AND one.disposition = 'dead'
            AND one.ordinal > letter.ordinal
    ) AS undelivered,
    EXISTS (
        SELECT FROM {schema}.operator_log AS log
        WHERE log.queue = place.queue AND (log.group_key = letter.group_key OR log.group_key IS NULL)
            AND log.action = 'forget' AND log.at >= letter.aside_at
    ) AS forgotten,
    known.group_key IS NOT NULL AS is_known
FROM {schema}.aside AS letter
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.known_groups AS known ON known.queue_id = letter.queue_id AND known.group_key = letter.group_key
WHERE letter.entry_id = %(entry_id)s AND letter.disposition = 'dead'
