-- Purpose: groups of a gate begin anew behind the numbers that the queue has given. Their own ordinals go on, because
-- released messages may still wait to be handed out; therefore stopped groups stay stopped.
-- Locks: the rows.
-- Index: known_groups_pkey, place_runs_pkey, late_places_pkey.
WITH misplaced AS MATERIALIZED (
    {misplaced(%(queue_id)s, %(gate_id)s)}
), passed AS (
    DELETE FROM {schema}.late_places AS late USING misplaced
    WHERE late.gate_id = %(gate_id)s AND late.group_key = misplaced.group_key
)
-- A fresh row of the kernel's: nothing has left, and no clock runs.
INSERT INTO {schema}.known_groups AS known (
    queue_id, group_key, incarnation, flags, first, next, mark, last, ordinal, since, reports, clock, skipped, arrivals
)
SELECT
    gate.queue_id, misplaced.group_key, gate.incarnation, 0, misplaced.next, misplaced.next, 0, {NOTHING}, 0,
    {NEVER}, 0, {NEVER}, '{}', 0
FROM misplaced JOIN {schema}.queues AS gate ON gate.queue_id = %(gate_id)s
ON CONFLICT (queue_id, group_key) DO UPDATE SET
    -- SUSPENDED, FAULTED and BY_OPERATOR.
    incarnation = known.incarnation + 1, flags = known.flags & {flag.SUSPENDED|FAULTED|BY_OPERATOR},
    first = excluded.first, next = excluded.next, mark = excluded.mark, last = excluded.last, since = excluded.since,
    reports = excluded.reports, suspects = excluded.suspects, suspect = excluded.suspect, skipped = '{}',
    remembered = '',
    touched_at = now()
