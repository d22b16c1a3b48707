-- Return the chains after messages. `of_streams`: the stream of each message; those of a stream are in order.
-- `begins`: of each, the chain before the first message of its stream.
-- is: immutable
CREATE OR REPLACE FUNCTION {schema}.link_chains(
    of_streams bigint[], begins bytea[], message_ids text[], digests bytea[]
) RETURNS bytea[]
AS $function$
DECLARE
    one record;
    stream bigint;
    chain bytea;
    chains bytea[] := ARRAY[]::bytea[];
BEGIN
    FOR one IN
        SELECT told.* FROM unnest(of_streams, begins, message_ids, digests) WITH ORDINALITY
            AS told (stream, begins, message_id, digest, nth) ORDER BY told.nth
    LOOP
        IF stream IS DISTINCT FROM one.stream THEN
            stream := one.stream;
            chain := one.begins;
        END IF;
        chain := sha256(chain || convert_to(one.message_id, 'UTF8') || one.digest);
        chains := chains || chain;
    END LOOP;
    RETURN chains;
END
$function$;
