-- Purpose: how many instances of an activation run, counted up to a bit more than a thousand.
-- Caller: drop.py.
-- Locks: none.
-- Index: instances_of_subscription.
SELECT {schema}.running_of(%(subscription_id)s)
