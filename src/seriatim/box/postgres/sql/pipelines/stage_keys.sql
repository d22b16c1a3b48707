-- Purpose: stage by which keys messages of a part go into dialogs.
-- Caller: dialog_staging.py, with COPY.
-- Locks: none.
-- Index: staged_keys_of_part.
COPY {schema}.staged_keys (part_id, place, key, problem) FROM STDIN (FORMAT binary)
