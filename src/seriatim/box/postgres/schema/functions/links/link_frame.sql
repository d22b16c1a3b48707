-- Return a frame of this box.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.link_frame(
    kind integer, receiver uuid, ranges bigint, rows bigint, messages bigint, most_bytes bigint, content bytea,
    version integer DEFAULT 1
) RETURNS bytea
AS $function$
DECLARE
    own {schema}.box_identity;
    frame bytea;
BEGIN
    SELECT * INTO own FROM {schema}.box_identity;
    frame := set_byte(set_byte('\x00000102'::bytea, 0, version), 1, kind)
        || int4send(96 + octet_length(content))
        || uuid_send(own.box_id) || uuid_send(receiver) || int8send(own.incarnation)
        || int4send(ranges::integer) || int4send(rows::integer) || int4send(messages::integer)
            || int4send(most_bytes::integer)
        || content;
    RETURN frame || sha256(frame);
END
$function$;
