-- Begin a new incarnation, after a restore.
-- Caller: operators.py. Locks: the one row.
UPDATE {schema}.journal SET incarnation = incarnation + 1 RETURNING incarnation
