-- Purpose: how many messages a group has that aren't done or set aside.
-- Index: entries_of_group.
SELECT count(*) AS entries FROM {schema}.entries WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s
