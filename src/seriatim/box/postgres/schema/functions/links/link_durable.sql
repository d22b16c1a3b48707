-- What is said is on disk before it is said: a setting that says less holds for no transaction of a link.
CREATE OR REPLACE FUNCTION {schema}.link_durable() RETURNS void
AS $function$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', TRUE);
    END IF;
END
$function$;
