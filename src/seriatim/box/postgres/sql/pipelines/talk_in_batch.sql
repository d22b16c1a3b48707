-- Purpose: receive the messages of dialogs that were put into a reader's next batch; sides that are told the end, end.
-- Caller: feed.py, under the locks of the groups.
-- Locks: the rows of their sides; where one ends, of both sides.
-- Index: entries_pkey, spool_pkey, endpoints_pkey, dialog_rules_pkey.
SELECT {schema}.talk_in_batch(%(queue_id)s, %(entry_ids)s::bigint[])
