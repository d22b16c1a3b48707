-- Purpose: the law of conservation in numbers: the messages that the groups of all queues, or of one, took in, and
-- their dispositions.
-- Locks: none; one statement, so all of it is of one moment.
-- Index: none; all groups are read, and all entries counted.
SELECT
    coalesce(sum(known.arrivals), 0)::bigint AS received,
    coalesce(sum(known.decided[{decided.RELEASED}]), 0)::bigint AS released, (
        SELECT count(*) FROM {schema}.entries AS entry
        JOIN {schema}.known_groups AS its USING (queue_id, group_key)
        WHERE entry.status = 'held'
    ) AS held,
    coalesce(sum(known.decided[{decided.LATE}]), 0)::bigint AS late,
    coalesce(sum(known.decided[{decided.DUPLICATE}]), 0)::bigint AS duplicate,
    coalesce(sum(known.decided[{decided.INVALID}]), 0)::bigint AS invalid,
    coalesce(sum(known.decided[{decided.REJECTED}]), 0)::bigint AS rejected,
    coalesce(sum(known.decided[{decided.DEAD}]), 0)::bigint AS dead,
    coalesce(sum(known.decided[{decided.VOID}]), 0)::bigint AS void
FROM {schema}.known_groups AS known
JOIN {schema}.queues AS place USING (queue_id)
