-- Return the silence after which a process counts for nothing: it has missed two heartbeats.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.silence() RETURNS interval
RETURN interval '15 s';
