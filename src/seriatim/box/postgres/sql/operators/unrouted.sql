-- Purpose: the next unrouted messages, in order of commit, so that they can be routed again; locked.
-- Locks: their rows, until the transaction ends; others that resubmit them wait.
-- Index: unrouted_pkey, tickets_arrival_id_key, spool_pkey.
{routed_again(unrouted, TRUE, NULL::bigint)}
