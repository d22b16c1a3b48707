-- Read the head of a frame, and check that the frame is whole. Raises the error, see `link_check`.
CREATE OR REPLACE FUNCTION {schema}.link_head(
    frame bytea, OUT kind integer, OUT sender uuid, OUT receiver uuid, OUT incarnation bigint, OUT ranges bigint,
    OUT rows bigint,
    OUT messages bigint, OUT most_bytes bigint, OUT version integer, OUT highest integer
)
AS $function$
DECLARE
    size integer := octet_length(frame);
    lowest integer;
BEGIN
    PERFORM {schema}.link_check(size >= 4, format('%s bytes are no frame', size));
    version := get_byte(frame, 0);
    lowest := get_byte(frame, 2);
    highest := get_byte(frame, 3);
    IF version NOT BETWEEN 1 AND 2 THEN
        RAISE EXCEPTION 'the frame has version % (its box knows % to %), and this one knows 1 to 2', version, lowest,
            highest USING
            ERRCODE = 'SQ004';
    END IF;
    PERFORM {schema}.link_check(size >= 96, format('%s bytes are no frame', size));
    PERFORM {schema}.link_check(size <= 16777216, format('a frame of %s bytes is larger than 16 MiB', size));
    PERFORM {schema}.link_check(
        {schema}.link_u4(frame, 4) = size, format('%s bytes came of %s', size, {schema}.link_u4(frame, 4))
    );
    PERFORM {schema}.link_check(
        sha256(substring(frame, 1, size - 32)) = substring(frame, size - 31), 'the checksum of a frame is wrong'
    );
    kind := get_byte(frame, 1);
    PERFORM {schema}.link_check(kind BETWEEN 1 AND 6, format('%s is no kind of frame', kind));
    PERFORM {schema}.link_check(
        lowest BETWEEN 1 AND version AND highest >= version,
        format('a frame of version %s comes from a box that knows %s to %s', version, lowest, highest)
    );
    sender := encode(substring(frame, 9, 16), 'hex')::uuid;
    receiver := encode(substring(frame, 25, 16), 'hex')::uuid;
    incarnation := {schema}.link_u8(frame, 40);
    ranges := {schema}.link_u4(frame, 48);
    rows := {schema}.link_u4(frame, 52);
    messages := {schema}.link_u4(frame, 56);
    most_bytes := {schema}.link_u4(frame, 60);
    PERFORM {schema}.link_check(
        incarnation BETWEEN 1 AND 9007199254740991, format('%s is no incarnation', incarnation)
    );
    PERFORM {schema}.link_check(ranges <= 10000, format('%s ranges are more than 10,000', ranges));
    PERFORM {schema}.link_check(rows <= 10000, format('%s streams are more than 10,000', rows));
    PERFORM {schema}.link_check(kind = 3 OR most_bytes = 0, 'a frame that isn''t a request asks for bytes');
    PERFORM {schema}.link_check(
        kind < 3 OR ranges + messages = 0 AND rows = (kind = 5)::integer, 'a frame without records has some'
    );
    PERFORM {schema}.link_check(
        64 + 24 * ranges + CASE kind
            WHEN 1 THEN 96 * rows + 64 * messages
            WHEN 5 THEN 24 * rows
            ELSE 72 * rows + 48 * messages
        END <= size - 32,
        'the tables of a frame are longer than the frame'
    );
END
$function$;
