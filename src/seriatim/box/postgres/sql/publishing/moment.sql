-- Purpose: the moment of the transaction, for filters that compare with it.
-- Caller: publisher.py, staging.py.
-- Locks: none.
-- Index: none.
SELECT now() AS moment
