-- Purpose: the groups, and the activations, of the instances that have added some values; a row for each, in order.
-- Caller: correlation.py, as messages are published.
-- Locks: none.
-- Index: correlations_pkey, known_instances_pkey.
SELECT led_to, activation FROM {schema}.led_by(%(queue_ids)s::integer[], %(properties)s::text[], %(values)s::text[])
