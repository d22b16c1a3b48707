-- Purpose: take the staged parts of a batch in, each once.
-- Caller: staging.py, which holds the definitions and the writer's row.
-- Locks: none beyond its own rows. Two transactions with the same message id wait for each other on it.
-- Index: staged_messages_of_part, staged_entries_of_part, message_ids_pkey.
SELECT {schema}.merge_parts(%(part_ids)s::bigint[], %(repeat)s) AS messages
