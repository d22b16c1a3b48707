-- Make the transaction's commit wait for the disk, whatever the session has set: answers are on disk before they are
-- sent.
CREATE OR REPLACE FUNCTION {schema}.link_durable() RETURNS void
AS $function$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', TRUE);
    END IF;
END
$function$;
