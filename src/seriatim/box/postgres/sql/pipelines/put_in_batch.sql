-- Purpose: put into a reader's next batch what a turn has released.
-- Caller: feed.py, under the locks of the groups.
-- Locks: the entries, which only a turn locks.
-- Index: entries_pkey.
SELECT {schema}.put_in_batch(
    %(queue_id)s, %(batch)s, %(entry_ids)s::bigint[], %(ordinals)s::bigint[], %(late)s::boolean[]
)
