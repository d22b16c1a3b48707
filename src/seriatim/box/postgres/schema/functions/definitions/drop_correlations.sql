-- Delete the rows that belong to an instance or a side of a dialog. Their foreign keys do the same, but PostgreSQL's
-- own triggers are silent in a session of a replica, and only a superuser may change that.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_correlations() RETURNS trigger
AS $function$
BEGIN
    DELETE FROM {schema}.correlations AS one USING gone WHERE one.instance_id = gone.instance_id;
    RETURN NULL;
END
$function$;
