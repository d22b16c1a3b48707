-- Purpose: how many instances of a starting subscription run, counted up to a bit more than a thousand; with `property`
-- only those that have added a value of it.
-- Caller: drop.py.
-- Locks: none.
-- Index: instances_of_subscription, correlations_of_instance.
SELECT {schema}.running_of(%(subscription_id)s, %(property)s::text)
