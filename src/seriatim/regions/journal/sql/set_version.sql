-- Note that the schema has another version now.
-- Caller: schema.py. Locks: the one row.
UPDATE {schema}.journal SET version = %(version)s
