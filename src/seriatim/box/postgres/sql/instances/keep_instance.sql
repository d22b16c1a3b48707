-- Purpose: write down what a handler made of an instance.
-- Caller: instances.py, under the lock of its group.
-- Locks: its row; a value waits for another transaction that adds the same one.
-- Index: known_instances_pkey, correlations_pkey.
SELECT kept, taken FROM {schema}.keep_instance(
    %(instance_id)s, %(queue_id)s, %(group_key)s, %(subscription_id)s, %(version)s, %(state)s, %(properties)s::text[],
    %(values)s::text[]
)
