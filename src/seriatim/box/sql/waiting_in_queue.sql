-- Purpose: how many messages a queue has that aren't done; held ones among them.
-- Caller: feed.py, where a query ends with what is there now.
-- Locks: none.
-- Index: entries_of_group.
SELECT count(*) AS messages FROM {schema}.entries WHERE queue_id = %(queue_id)s
