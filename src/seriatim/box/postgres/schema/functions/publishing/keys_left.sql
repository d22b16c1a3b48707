-- Return for each message whether it comes in, by what was decided of its entries: it does if it has no entry, or one
-- in whose place no message waits. Also return how many entries come in, and the message that waits in the place of the
-- first one.
-- is: sql, stable, no nestloop
CREATE OR REPLACE FUNCTION {schema}.keys_left(
    many bigint, entry_places bigint[], waiting text[], OUT comes boolean[], OUT entries integer[], OUT waits text[]
)
AS $function$
    SELECT
        array_agg(coalesce(entry.waiting < entry.entries, TRUE) ORDER BY message.place),
        array_agg(coalesce(entry.entries - entry.waiting, 0)::integer ORDER BY message.place),
        array_agg(CASE WHEN entry.waiting = entry.entries THEN entry.first END ORDER BY message.place)
    FROM generate_series(1, many) AS message (place)
    LEFT JOIN (
        SELECT given.place, count(*) AS entries, count(given.waits) AS waiting,
            (array_agg(given.waits ORDER BY given.nth))[1] AS first
        FROM unnest(entry_places, waiting) WITH ORDINALITY AS given (place, waits, nth) GROUP BY given.place
    ) AS entry USING (place)
$function$;
