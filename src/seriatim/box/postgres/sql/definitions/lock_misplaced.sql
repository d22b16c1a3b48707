-- Purpose: lock the groups of a gate that are to begin anew and have something to do, and so may be worked on. Return
-- how many there are, up to 1,001, how many are locked, and how many have messages that haven't left their places yet.
-- Locks: these groups, unless others have them: it waits for none, because their holders may wait for the definitions.
-- Index: known_groups_pkey, place_runs_pkey, entries_of_group, requests_of_queue: all of the queue and the gate.
SELECT
    count(*) AS groups,
    count(*) FILTER (WHERE pg_try_advisory_xact_lock({schema}.group_lock(%(gate_id)s, busy.group_key))) AS locked,
    count(*) FILTER (WHERE busy.waits) AS waiting
FROM (
    SELECT one.group_key, bool_or(one.waits) AS waits
    FROM (
        SELECT group_key, status IN ('arrived', 'held', 'placed') AS waits FROM {schema}.entries WHERE queue_id = %(gate_id)s
        UNION ALL
        SELECT group_key, FALSE FROM {schema}.requests WHERE queue_id = %(gate_id)s
    ) AS one
    JOIN ({misplaced(%(queue_id)s, %(gate_id)s)}) AS misplaced ON misplaced.group_key = one.group_key
    GROUP BY one.group_key LIMIT 1001
) AS busy
