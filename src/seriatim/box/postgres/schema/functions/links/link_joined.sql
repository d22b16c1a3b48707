-- Return the body of a message in the spool with its parts behind it, as a large object: the caller unlinks it in its
-- transaction. Only one of the pieces is in memory.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.link_joined(of_arrival bigint, at_position integer) RETURNS oid
AS $function$
DECLARE
    whole oid := lo_create(0);
    at bigint := 0;
    piece record;
BEGIN
    FOR piece IN
        SELECT stored.body FROM {schema}.spool AS stored
        WHERE stored.arrival_id = of_arrival AND stored.position = at_position
    LOOP
        PERFORM lo_put(whole, at, piece.body);
        at := at + octet_length(piece.body);
    END LOOP;
    FOR piece IN
        SELECT part.body FROM {schema}.message_parts AS part
        WHERE part.arrival_id = of_arrival AND part.position = at_position ORDER BY part.number
    LOOP
        PERFORM lo_put(whole, at, piece.body);
        at := at + octet_length(piece.body);
    END LOOP;
    RETURN whole;
END
$function$;
