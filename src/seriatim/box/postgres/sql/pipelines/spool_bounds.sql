-- Purpose: cut the spool into parts of about the same size.
-- Index: spool_pkey, without the table.
SELECT percentile_disc(%(fractions)s::float8[]) WITHIN GROUP (ORDER BY arrival_id) AS bounds
FROM {schema}.spool
