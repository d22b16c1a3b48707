-- Forget a link, with its streams and their messages. Its dialogs fail. The locks are taken in the order of those that obey
-- what has come: the inbox, the sides, the link.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_link(of_name text) RETURNS void
AS $function$
DECLARE
    why CONSTANT text := 'the link to the other box was removed';
    gone integer := (SELECT one.link_id FROM {schema}.known_links AS one WHERE one.link = of_name);
BEGIN
    DELETE FROM {schema}.dialog_inbox AS come WHERE come.link_id = gone; -- waits for those that begin a side
    PERFORM {schema}.leave_dialogs(gone, {HISTORY_CODE}, why);
    DELETE FROM {schema}.known_links AS one WHERE one.link_id = gone;
    PERFORM {schema}.leave_dialogs(gone, {HISTORY_CODE}, why); -- of those that began meanwhile
END
$function$;
