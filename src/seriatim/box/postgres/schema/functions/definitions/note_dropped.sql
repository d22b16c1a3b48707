-- Note the messages of deleted rows, so that the clean-up looks whether they have another reference.
CREATE OR REPLACE FUNCTION {schema}.note_dropped() RETURNS trigger
AS $function$
BEGIN
    INSERT INTO {schema}.dropped (arrival_id, position) SELECT arrival_id, position FROM gone;
    RETURN NULL;
END
$function$;
