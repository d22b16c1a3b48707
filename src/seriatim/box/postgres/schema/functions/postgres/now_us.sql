-- Return the present time, in microseconds.
-- is: sql, parallel safe
CREATE OR REPLACE FUNCTION {schema}.now_us() RETURNS bigint
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
