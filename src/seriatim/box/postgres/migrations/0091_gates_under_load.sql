-- What waits at a full gate, and what a full gate takes.

-- Groups that stand still because their gate was full, and of which nobody was told that it isn't any more, are looked at once; from
-- then on a turn says when it looks again.
UPDATE {schema}.known_groups AS known SET due_at = {schema}.now_us()
FROM {schema}.queues AS place
WHERE place.queue_id = known.queue_id AND place.definition ->> 'gate' IS NOT NULL
    AND known.ready_rank IS NULL AND known.due_at IS NULL AND EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key AND entry.status = 'queued'
    );
