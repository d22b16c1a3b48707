-- Return the answers to a batch of a peer that isn't granted: all of its streams are gone.
CREATE OR REPLACE FUNCTION {schema}.link_gone(frame bytea, sender uuid, ranges bigint, rows bigint) RETURNS bytea
AS $function$
DECLARE
    told record;
BEGIN
    SELECT
        coalesce(string_agg(
            substring(frame, (place + 1)::integer, 16) || int4send({answer.GONE}) || int4send(0) || int8send(0)
                || int4send(0) || int4send(0)
            || decode(repeat('00', 32), 'hex'), ''::bytea ORDER BY place
        ), ''::bytea) AS answers,
        bool_and(
            {schema}.link_u8(frame, place) BETWEEN 1 AND 9007199254740991
                AND {schema}.link_u8(frame, place + 8) BETWEEN 1 AND 9007199254740991
        ) IS NOT FALSE AND count(DISTINCT substring(frame, (place + 1)::integer, 16)) = rows AS are_right
    INTO told
    FROM generate_series(1, rows) AS nth CROSS JOIN LATERAL (SELECT 64 + 24 * ranges + 96 * (nth - 1) AS place) AS one;
    PERFORM {schema}.link_check(told.are_right, 'a stream has a number that none can have, or is in a batch twice');
    RETURN {schema}.link_frame(2, sender, 0, rows, 0, 0, told.answers);
END
$function$;
