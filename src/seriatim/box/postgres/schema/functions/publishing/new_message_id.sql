-- Return a new id for a message: a UUID of version 7, so that ids made later sort later.
-- is: sql, parallel safe
CREATE OR REPLACE FUNCTION {schema}.new_message_id() RETURNS text
-- One expression, so that it is inlined.
RETURN overlay(lpad(to_hex({schema}.now_us() / 1000), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7'
    || substr(gen_random_uuid()::text, 16);
