-- Purpose: keep as unrouted what of a batch couldn't be sent, and forget its parts.
-- Caller: dialog_staging.py, when all else of it is sent.
-- Locks: none beyond its own rows.
-- Index: staged_keys_of_part, staged_messages_of_part.
SELECT {schema}.end_sends(%(part_ids)s::bigint[]) AS messages
