-- Purpose: make the messages that stop each of some groups dead letters, like set_dead for one group.
-- Locks: as the function: rows of entries.
-- Index: entries_pkey.
SELECT count({schema}.set_dead(%(of_queue)s, gone.group_key, gone.entries, %(why)s)::text)
FROM (
    SELECT group_key, array_agg(entry_id ORDER BY entry_id) AS entries
    FROM unnest(%(of_groups)s::text[], %(of_entries)s::bigint[]) AS given (group_key, entry_id)
    GROUP BY group_key
) AS gone
