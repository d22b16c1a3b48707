-- Note the incarnation of the other box, and the highest version that it reads; return why it isn't believed, NULL: it is.
CREATE OR REPLACE FUNCTION {schema}.link_heard(of_link integer, incarnation bigint, highest integer) RETURNS text
AS $function$
DECLARE
    known bigint := (SELECT one.peer_incarnation FROM {schema}.known_links AS one WHERE one.link_id = of_link);
BEGIN
    UPDATE {schema}.known_links AS one SET version = highest WHERE one.link_id = of_link AND one.version <> highest;
    IF known < incarnation THEN
        UPDATE {schema}.known_links AS one SET peer_incarnation = greatest(one.peer_incarnation, incarnation)
        WHERE one.link_id = of_link;
    ELSIF known > incarnation THEN
        UPDATE {schema}.known_links AS one SET older_at = clock_timestamp(), older_incarnation = incarnation
        WHERE one.link_id = of_link;
        RETURN format(
            'a box with this id was here as incarnation %s, and this is %s: two live under one id, or the newer one is gone and an older state of it is back. '
            || 'If this is the right one: seriatim link accept (or link add) once more, at the box that refuses', known,
            incarnation
        );
    END IF;
    RETURN NULL;
END
$function$;
