-- Forget a link, with its streams and their messages. Its dialogs fail.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_link(of_name text) RETURNS void
AS $function$
DECLARE
    gone integer := (SELECT one.link_id FROM {schema}.known_links AS one WHERE one.link = of_name);
BEGIN
    PERFORM {schema}.leave_dialogs(gone, {HISTORY_CODE}, 'the link to the other box was removed');
    DELETE FROM {schema}.known_links AS one WHERE one.link_id = gone;
END
$function$;
