-- Purpose: stage the entries of a part's messages.
-- Index: staged_entries_of_part.
COPY {schema}.staged_entries (
    part_id, place, arrival_id, position, queue_id, group_key, sequence, size, meaning, priority, problem,
    subscription_ids
) FROM STDIN (FORMAT binary)
