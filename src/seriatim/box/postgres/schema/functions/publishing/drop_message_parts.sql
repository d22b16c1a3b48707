-- Delete the parts of a deleted message. Messages without parts cost nothing here.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_message_parts() RETURNS trigger
AS $function$
BEGIN
    DELETE FROM {schema}.message_parts WHERE arrival_id = OLD.arrival_id AND position = OLD.position;
    RETURN NULL;
END
$function$;
