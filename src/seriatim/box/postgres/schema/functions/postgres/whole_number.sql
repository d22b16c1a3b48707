-- Return a whole number of JSON; NULL for anything else, such as an unreadable definition.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.whole_number(given jsonb) RETURNS bigint
RETURN CASE WHEN jsonb_typeof(given) = 'number' AND given::text ~ '^-?\d{1,18}$' THEN (given #>> '{}')::bigint END;
