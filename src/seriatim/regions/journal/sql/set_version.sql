-- Note that the schema has another version now.
UPDATE {schema}.journal SET version = %(version)s
