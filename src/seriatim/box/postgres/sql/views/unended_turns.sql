-- Purpose: the messages that were handed out several times on trial without an end of their turn.
-- Index: none of trials, which is all but empty; entries_pkey, spool_pkey.
SELECT place.queue, trial.group_key AS "group", stored.message_id, trial.times
FROM {schema}.trials AS trial
JOIN {schema}.queues AS place USING (queue_id)
JOIN {schema}.entries AS entry USING (entry_id)
JOIN {schema}.spool AS stored ON stored.arrival_id = entry.arrival_id AND stored.position = entry.position
WHERE trial.times > 1
ORDER BY trial.times DESC, trial.since
