-- Return the items of an array at these places, one for each place; NULL: there is none. By a hash of the places,
-- even if the server takes them for few.
-- is: sql, stable, no nestloop
CREATE OR REPLACE FUNCTION {schema}.items_at(given text[], places bigint[]) RETURNS text[]
AS $function$
    SELECT coalesce(array_agg(found.item ORDER BY wanted.nth), '{}')
    FROM unnest(places) WITH ORDINALITY AS wanted (place, nth)
    LEFT JOIN unnest(given) WITH ORDINALITY AS found (item, place) USING (place)
$function$;
