-- Purpose: the instance of a group, or the id of one to be.
-- Caller: instances.py, under the lock of the group.
-- Locks: none.
-- Index: known_instances_queue_id_group_key_key, correlations_of_instance.
SELECT number, made_by, kept_state, known_version, added
FROM {schema}.find_instance(%(queue_id)s, %(group_key)s)
