-- Purpose: delete the notes of the tables' sizes after a week.
-- Locks: the rows.
-- Index: samples_pkey.
DELETE FROM {schema}.samples WHERE taken_at < now() - interval '7 days'
