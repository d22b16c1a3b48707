-- Begin a new incarnation, after a restore.
UPDATE {schema}.journal SET incarnation = incarnation + 1 RETURNING incarnation
