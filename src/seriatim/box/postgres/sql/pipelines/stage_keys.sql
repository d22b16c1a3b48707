-- Purpose: stage the keys by which messages of a part go into dialogs.
-- Index: staged_keys_of_part.
COPY {schema}.staged_keys (part_id, place, key, problem) FROM STDIN (FORMAT binary)
