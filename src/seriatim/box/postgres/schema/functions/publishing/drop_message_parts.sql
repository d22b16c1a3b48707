-- Parts go with their message, whoever deletes it. Messages without parts pay nothing for that.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_message_parts() RETURNS trigger
AS $function$
BEGIN
    DELETE FROM {schema}.message_parts WHERE arrival_id = OLD.arrival_id AND position = OLD.position;
    RETURN NULL;
END
$function$;
