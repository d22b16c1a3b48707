-- Purpose: no more be called.
-- Caller: waiting.py, in the transaction that received, or that ends without.
-- Locks: the row; whoever would call skips it then.
-- Index: waiters_pkey.
SELECT {schema}.unregister(%(waiter_id)s)
