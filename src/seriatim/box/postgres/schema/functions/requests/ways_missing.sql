-- Return those of some links over which the other box may send to no queue here: no reply can come back.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.ways_missing(of_links text[]) RETURNS text[]
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    RETURN ARRAY(
        SELECT wanted FROM unnest(of_links) AS wanted
        WHERE NOT EXISTS (SELECT FROM {schema}.known_links AS one WHERE one.link = wanted AND cardinality(one.queues) > 0)
        ORDER BY wanted
    );
END
$function$;
