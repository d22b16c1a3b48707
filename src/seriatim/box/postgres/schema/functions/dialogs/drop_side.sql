-- When sides of dialogs are deleted, delete what belongs to them.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_side() RETURNS trigger
AS $function$
BEGIN
    DELETE FROM {schema}.known_transmission AS one USING gone WHERE one.handle = gone.handle;
    DELETE FROM {schema}.dialog_messages AS one USING gone WHERE one.handle = gone.handle;
    RETURN NULL;
END
$function$;
