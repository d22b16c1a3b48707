-- Return a whole number of 4 bytes, by its place from 0. This is inlined, so the frame has to be a parameter: in a row
-- it would be copied with each row.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.link_u4(frame bytea, place bigint) RETURNS bigint
RETURN ('x' || encode(substring(frame, (place + 1)::integer, 4), 'hex'))::bit(32)::bigint;
