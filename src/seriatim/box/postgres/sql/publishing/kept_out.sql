-- Purpose: which of these messages (NULL: of all) the transaction has published so that nobody wanted them, or a queue set
-- them aside as invalid, and what is wrong with them.
-- Caller: notices.py, where somebody asks for failures and something may be wrong.
-- Locks: none.
-- Index: arrivals_pkey, unrouted_pkey, aside_of_message, spool_pkey.
SELECT queue_id, group_key, message_id, type, context, property_types, problem
FROM {schema}.kept_out(%(message_ids)s::text[])
