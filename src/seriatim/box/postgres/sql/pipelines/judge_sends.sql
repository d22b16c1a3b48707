-- Purpose: find the staged messages of a batch that may not be sent under a contract.
-- Caller: dialog_staging.py, which holds the definitions.
-- Locks: their rows.
-- Index: contracts_pkey, staged_messages_of_part, staged_keys_of_part.
SELECT {schema}.judge_sends(%(part_ids)s::bigint[], %(contract)s)
