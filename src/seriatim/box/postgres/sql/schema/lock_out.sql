-- Purpose: wait until nobody publishes or has messages in hand, and keep everybody from it until the transaction ends.
-- Caller: migration_locks.py, before it changes what they call.
-- Locks: these tables, against all others; in the order in which publishers take them.
-- Index: none.
LOCK TABLE {schema}.arrivals, {schema}.spool, {schema}.entries IN ACCESS EXCLUSIVE MODE
