-- Refuse a caller that lacks a right for one of these queues, or, where none is named, has it for no queue at all. The
-- error says which right, for which queue, and who can grant it. `what`: the right, or one of the two that others give,
-- see `giving`. A caller that may change something is also refused where the box is disabled.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.permit(what text, queue_ids integer[]) RETURNS void
AS $function$
DECLARE
    granted integer[];
    verb text := CASE what
        WHEN 'publish' THEN 'publish to' WHEN 'receive' THEN 'receive from' WHEN 'subscribe' THEN 'subscribe for'
        WHEN 'judge' THEN 'receive from' WHEN 'read' THEN 'see bodies of' WHEN 'see_bodies' THEN 'see bodies of'
        WHEN 'operate' THEN 'operate on' ELSE what END;
    named text := CASE what WHEN 'judge' THEN 'receive' WHEN 'read' THEN 'see_bodies' ELSE what END;
    missing integer;
    place text;
BEGIN
    IF current_setting('seriatim.enabled_{schema_name}', TRUE) IS DISTINCT FROM 'yes'
        AND what NOT IN ('read', 'see', 'see_bodies', 'subscribe') THEN
        PERFORM {schema}.check_enabled();
    END IF;
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    granted := {schema}.permitted(what);
    IF cardinality(granted) > 0 AND queue_ids <@ granted THEN
        RETURN;
    END IF;
    SELECT one INTO missing FROM unnest(queue_ids) AS one WHERE NOT ARRAY[one] <@ granted LIMIT 1;
    place := coalesce((SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = missing), missing::text);
    RAISE EXCEPTION 'the role "%" may not % %', {schema}.caller(), verb,
        CASE WHEN place IS NULL THEN 'any queue' ELSE format('the queue "%s"', place) END
    USING
        ERRCODE = 'insufficient_privilege',
        HINT = format(
            'the right "%s" is missing; the owner of the message box, "%s", can grant it: seriatim box grant %s --%s%s',
            named,
            current_user, {schema}.caller(), replace(named, '_', '-'),
            CASE WHEN named = 'route' THEN '' ELSE ' ' || coalesce(place, 'QUEUE') END
        );
END
$function$;
