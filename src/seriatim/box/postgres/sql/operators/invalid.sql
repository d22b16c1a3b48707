-- Purpose: the next messages that a queue has set aside as invalid, in order of commit, so that they can be routed
-- again; locked. A message of a dialog isn't one of a subscription.
-- Locks: their rows, until the transaction ends; others that resubmit or delete them wait.
-- Index: aside_of_group, tickets_arrival_id_key, spool_pkey.
{routed_again(aside, waiting.queue_id = %(queue_id)s AND waiting.disposition = 'invalid' AND named.dialog IS NULL, waiting.entry_id)}
