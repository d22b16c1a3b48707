-- Purpose: whether messages wait in a queue, or are on their way from it to another box.
-- Index: entries_of_group, link_streams_to_send.
SELECT EXISTS (SELECT FROM {schema}.entries WHERE queue_id = %(queue_id)s)
    OR EXISTS (SELECT FROM {schema}.link_streams_out WHERE queue_id = %(queue_id)s AND acked < sent) AS in_use
