-- Purpose: store the decisions of a turn, and return the messages to hand out. Without any there is one row of nulls.
-- `first_id`: the first of them, in a group that is new; then `is_left`: whether a mark is left on it (`leave_mark`).
-- Locks: the rows of its groups and entries, which only a turn locks.
-- Index: known_groups_pkey, entries_pkey, spool_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    handed.*,
    CASE WHEN %(first_id)s::bigint IS NOT NULL THEN {schema}.leave_mark(%(queue_id)s, %(first_id)s::bigint) END AS is_left
FROM {schema}.decide(
    %(queue_id)s, %(group_keys)s::text[], %(states)s::bigint[], %(skipped)s::text[], %(arrivals)s::bigint[],
    %(decided)s::text[], %(due_ats)s::bigint[], %(ready_ranks)s::bigint[], %(remembered)s::text[],
    %(kept_ids)s::bigint[], %(kept_statuses)s::text[], %(kept_arrivals)s::bigint[], %(kept_ordinals)s::bigint[],
    %(kept_late)s::boolean[], %(kept_waits)s::boolean[],
    %(aside_ids)s::bigint[], %(aside_dispositions)s::text[], %(aside_reasons)s::text[], %(aside_ordinals)s::bigint[],
    %(aside_counted)s::bigint[],
    %(obeyed_ids)s::bigint[], %(lives)s::text[], %(kept_sequences)s::bigint[], %(kept_meanings)s::text[],
    %(aside_sequences)s::bigint[], %(aside_meanings)s::text[]
) AS done
LEFT JOIN LATERAL {schema}.handed(%(queue_id)s, %(handed_ids)s::bigint[]) AS handed ON TRUE
