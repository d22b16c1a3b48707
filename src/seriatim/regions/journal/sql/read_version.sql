-- The version of the schema.
-- Caller: schema.py. Locks: none.
SELECT version FROM {schema}.journal
