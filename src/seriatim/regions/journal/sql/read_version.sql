-- The version of the schema.
SELECT version FROM {schema}.journal
