-- Purpose: the data for the last processed message of a group: the first ordinal that isn't, the newest that is kept,
-- the newest ordinals that are dead letters, and which numbers the group has skipped.
-- Index: entries_of_group, history_of_group, aside_of_group, known_groups_pkey. What is kept of the group is sorted.
SELECT
    (
        SELECT min(entry.ordinal) FROM {schema}.entries AS entry
        WHERE entry.queue_id = %(queue_id)s AND entry.group_key = %(group_key)s AND entry.status IN ('queued', 'in_hand')
    ) AS first_left,
    ARRAY(
        SELECT letter.ordinal FROM {schema}.aside AS letter
        WHERE letter.queue_id = %(queue_id)s AND letter.group_key = %(group_key)s AND letter.disposition = 'dead'
            AND letter.ordinal IS NOT NULL
        ORDER BY letter.ordinal DESC LIMIT 1000
    ) AS dead,
    coalesce((
        SELECT known.skipped FROM {schema}.known_groups AS known
        WHERE known.queue_id = %(queue_id)s AND known.group_key = %(group_key)s
    ), '{}') AS skipped,
    done.ordinal, done.sequence, done.done_at, done.done_by
FROM (SELECT) AS once LEFT JOIN LATERAL (
    SELECT one.ordinal, one.sequence, one.done_at, one.done_by FROM {schema}.history AS one
    WHERE one.queue_id = %(queue_id)s AND one.group_key = %(group_key)s AND one.ordinal IS NOT NULL
    ORDER BY one.incarnation DESC, one.ordinal DESC LIMIT 1
) AS done ON TRUE
