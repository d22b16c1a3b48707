-- Purpose: how large the tables were a day ago: as the oldest note of the last 24 hours says, or else the newest.
-- Index: samples_pkey.
SELECT taken_at, name, rows, size_bytes FROM {schema}.samples
WHERE taken_at = coalesce(
    (SELECT min(taken_at) FROM {schema}.samples WHERE taken_at >= now() - interval '24 hours'),
    (SELECT max(taken_at) FROM {schema}.samples)
)
