-- The last of the numbers that no region has, as far as they have told since `hole_since`.
ALTER TABLE {schema}.sessions ADD COLUMN IF NOT EXISTS hole_through bigint;
