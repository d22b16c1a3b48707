-- Purpose: which of these messages the transaction has published so that nobody wanted them, and what is wrong with them.
-- Caller: failures.py, where somebody asks for failures and a message had no queue.
-- Locks: none.
-- Index: arrivals_pkey, unrouted_pkey, spool_pkey.
SELECT message_id, problem FROM {schema}.unrouted_now(%(message_ids)s::text[])
