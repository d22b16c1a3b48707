-- Refuse a caller that may not send to one of these services of other boxes.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.permit_sending(services text[]) RETURNS void
AS $function$
DECLARE
    missing text := (SELECT one FROM unnest(services) AS one WHERE one <> ALL ({schema}.sends_to()) LIMIT 1);
BEGIN
    IF missing IS NOT NULL AND NOT {schema}.is_owner() THEN
        RAISE EXCEPTION 'the role "%" may not send to the service "%" of another box', {schema}.caller(), missing USING
            ERRCODE = 'insufficient_privilege',
            HINT = format(
                'the right "send" is missing; the owner of the message box, "%s", can grant it: seriatim box grant %s --send %s',
                current_user, {schema}.caller(), missing
            );
    END IF;
END
$function$;
