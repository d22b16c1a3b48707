-- Purpose: whether a queue has the state of any group, or a message that isn't judged yet; `numbers`: or has counted
-- the messages of one.
-- Index: known_groups_pkey, entries_of_group, place_runs_pkey, a row each.
SELECT
    EXISTS (SELECT FROM {schema}.known_groups WHERE queue_id = %(queue_id)s)
    OR EXISTS (SELECT FROM {schema}.entries WHERE queue_id = %(queue_id)s)
    OR %(numbers)s AND EXISTS (SELECT FROM {schema}.place_runs WHERE queue_id = %(queue_id)s) AS in_use
