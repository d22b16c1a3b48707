-- Purpose: end an instance.
-- Caller: instances.py and instance_actions.py, under the lock of its group.
-- Locks: its row, and those of its correlations.
-- Index: known_instances_pkey, correlations_of_instance.
SELECT {schema}.end_instance(%(instance_id)s, %(queue_id)s, %(version)s)
