-- Return the items of an array that are to be kept, in order. An item of a text array is never looked up by its
-- place: the server would walk to it from the beginning, each time.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.kept(given anyarray, keeps boolean[]) RETURNS anyarray
AS $function$
    SELECT coalesce(array_agg(one.item ORDER BY one.place), given[1:0])
    FROM unnest(given, keeps) WITH ORDINALITY AS one (item, keeps, place) WHERE one.keeps
$function$;
