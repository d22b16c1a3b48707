-- Purpose: the messages that stop a group: the one that is postponed, or whose handler failed last, or else the first one; or all.
-- Index: entries_of_group, faults_of_group, spool_pkey.
SELECT entry.entry_id, stored.message_id, stored.type, stored.content_type, stored.context::text, stored.property_types,
    (entry.attempt > 0 OR coalesce(entry.postponed_until = entry.visible_at, FALSE))
        AND coalesce(entry.visible_at > clock_timestamp(), FALSE) AS waits,
    CASE WHEN entry.postponed_until = entry.visible_at THEN entry.postponed END AS postponed
FROM {schema}.entries AS entry
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.spool AS one WHERE one.arrival_id = entry.arrival_id AND one.position = entry.position LIMIT 1
) AS stored
WHERE entry.queue_id = %(queue_id)s AND entry.group_key = %(group_key)s AND entry.status = 'queued'
    -- Of sets that follow one another the first: a released part has the ordinal of the last part of its set.
    AND (NOT %(begins_again)s OR entry.ordinal <= coalesce((
        SELECT nullif(part.meaning[3], 0) FROM {schema}.entries AS part
        WHERE part.queue_id = %(queue_id)s AND part.group_key = %(group_key)s AND part.status = 'queued'
        ORDER BY part.ordinal LIMIT 1
    ), entry.ordinal))
ORDER BY
    (entry.postponed_until = entry.visible_at AND entry.visible_at > clock_timestamp()) IS TRUE DESC,
    (entry.entry_id = (
        SELECT entry_id FROM {schema}.faults WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s
        ORDER BY fault_id DESC LIMIT 1
    )) IS TRUE DESC,
    entry.ordinal
LIMIT %(at_most)s
