-- A whole number of JSON; NULL where it is anything else, as a definition may have that nobody can read.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.whole_number(given jsonb) RETURNS bigint
RETURN CASE WHEN jsonb_typeof(given) = 'number' AND given::text ~ '^-?\d{1,18}$' THEN (given #>> '{}')::bigint END;
