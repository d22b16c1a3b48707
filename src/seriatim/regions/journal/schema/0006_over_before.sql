-- All sessions whose keys are below this one are over, and forgotten.
ALTER TABLE {schema}.queues ADD COLUMN IF NOT EXISTS over_before text;
