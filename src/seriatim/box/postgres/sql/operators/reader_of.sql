-- Purpose: the pipeline that has a queue, and the number of its unfinished messages in hand.
-- Index: readers_pkey, queues_pkey, entries_in_hand.
SELECT coalesce(place.owner, ''), (
    SELECT count(*) FROM {schema}.entries AS entry
    WHERE entry.queue_id = place.queue_id AND entry.batch > reader.done
) AS messages
FROM {schema}.readers AS reader JOIN {schema}.queues AS place USING (queue_id)
WHERE reader.queue_id = %(queue_id)s
