-- Purpose: the messages that stop each of some groups, like failed.sql for one group.
-- Index: entries_of_group, faults_of_group, spool_pkey.
SELECT
    wanted.group_key AS "group", found.entry_id, found.waits, (
        SELECT stored.message_id FROM {schema}.spool AS stored
        WHERE stored.arrival_id = found.arrival_id AND stored.position = found.position
    ) AS message_id
FROM unnest(%(group_keys)s::text[]) AS wanted (group_key)
CROSS JOIN LATERAL (
    SELECT entry.entry_id, entry.arrival_id, entry.position, (entry.attempt > 0 OR coalesce(entry.postponed_until = entry.visible_at, FALSE))
        AND coalesce(entry.visible_at > clock_timestamp(), FALSE) AS waits
    FROM {schema}.entries AS entry
    WHERE entry.queue_id = %(queue_id)s AND entry.group_key = wanted.group_key AND entry.status = 'queued'
        -- Of sets that follow one another the first: a released part has the ordinal of the last part of its set.
        AND (NOT %(begins_again)s OR entry.ordinal <= coalesce((
            SELECT nullif(part.meaning[3], 0) FROM {schema}.entries AS part
            WHERE part.queue_id = %(queue_id)s AND part.group_key = wanted.group_key AND part.status = 'queued'
            ORDER BY part.ordinal LIMIT 1
        ), entry.ordinal))
    ORDER BY
        (entry.postponed_until = entry.visible_at AND entry.visible_at > clock_timestamp()) IS TRUE DESC,
        (entry.entry_id = (
            SELECT entry_id FROM {schema}.faults WHERE queue_id = %(queue_id)s AND group_key = wanted.group_key
            ORDER BY fault_id DESC LIMIT 1
        )) IS TRUE DESC,
        entry.ordinal
    LIMIT %(at_most)s
) AS found
