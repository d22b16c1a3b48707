-- Set the deleted entries {0} aside as dead, for the reason `why`; with {1} as their ordinal.
INSERT INTO {schema}.aside (
    entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, meaning, priority,
    subscription_ids, ordinal, late, attempt
)
SELECT
    entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, meaning, priority,
    subscription_ids, {1}, late, attempt
FROM {0}
