-- Return a whole number of 8 bytes, by its place from 0; see `link_u4`.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.link_u8(frame bytea, place bigint) RETURNS bigint
RETURN ('x' || encode(substring(frame, (place + 1)::integer, 8), 'hex'))::bit(64)::bigint;
