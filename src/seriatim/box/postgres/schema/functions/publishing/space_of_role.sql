-- Return the id space of a role that isn't the owner: its own; or that of a role which it is a member of and which
-- may publish, the first by name; or its name. A transaction may choose a part of it, which follows a slash.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.space_of_role(who name) RETURNS text
AS $function$
DECLARE
    space text := (
        SELECT known.id_space FROM {schema}.id_spaces AS known WHERE known.role = to_regrole(quote_ident(who))
    );
BEGIN
    IF space IS NULL THEN
        space := (
            SELECT known.id_space FROM {schema}.id_spaces AS known
            WHERE pg_has_role(who, known.role::oid, 'USAGE')
                AND EXISTS (
                    SELECT FROM {schema}.grants AS given WHERE given.role = known.role AND given.may = 'publish'
                )
            ORDER BY known.id_space LIMIT 1
        );
    END IF;
    RETURN coalesce(space, who) || coalesce('/' || nullif(current_setting('seriatim.id_space', TRUE), ''), '');
END
$function$;
