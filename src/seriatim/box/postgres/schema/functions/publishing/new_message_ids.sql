-- Return ids for messages of one call: a new one, and those that follow it.
-- is: parallel safe, 50 rows
CREATE OR REPLACE FUNCTION {schema}.new_message_ids(how_many bigint) RETURNS SETOF text
AS $function$
DECLARE
    first text := {schema}.new_message_id();
    begins text := left(first, 24);
    last bigint := ('x' || right(first, 12))::bit(48)::bigint;
BEGIN
    RETURN QUERY SELECT begins || lpad(to_hex(last + place & 281474976710655), 12, '0')
    FROM generate_series(0, how_many - 1) AS place;
END
$function$;
