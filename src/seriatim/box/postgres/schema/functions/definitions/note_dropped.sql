-- Whoever deletes rows of these tables leaves a note of it, and need not know.
CREATE OR REPLACE FUNCTION {schema}.note_dropped() RETURNS trigger
AS $function$
BEGIN
    INSERT INTO {schema}.dropped (arrival_id, position) SELECT arrival_id, position FROM gone;
    RETURN NULL;
END
$function$;
