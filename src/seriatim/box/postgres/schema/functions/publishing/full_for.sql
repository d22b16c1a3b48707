-- Return the queue that a message of `publish` is addressed to, if the message has to be refused, because the queue is
-- full and the message surely fills no hole there: its group and number are told by properties, as text and number, and
-- nothing later of its group waits. NULL: it comes in. Where only the body tells, the kernel alone can find them; and a
-- statement doesn't wait for room. Only queues are looked at that refuse what doesn't fit, or that another box has.
-- is: stable, no seqscan
CREATE OR REPLACE FUNCTION {schema}.full_for(context jsonb) RETURNS text
AS $function$
DECLARE
    place record;
    fills boolean := FALSE;
BEGIN
    SELECT queue_id, queue, coalesce({schema}.whole_number(definition -> 'max_messages'), (
            SELECT {schema}.whole_number(one.definition -> 'max_waiting') FROM {schema}.known_links AS one
            WHERE one.link = queues.definition ->> 'at'
        )) AS most, definition #>> '{policy,name}' AS policy,
        definition ->> 'group' AS grouped, definition ->> 'sequence' AS numbered
    INTO place
    FROM {schema}.queues
    WHERE queue = context ->> 'to'
        AND (definition ->> 'at' IS NOT NULL OR definition ->> 'when_full' = 'refuse');
    IF place.most IS NULL OR NOT ({schema}.is_owner() OR place.queue_id = ANY ({schema}.permitted('publish'))) THEN
        RETURN NULL;
    END IF;
    IF ({schema}.room_in(ARRAY[place.queue_id], ARRAY[place.most]))[1] > 0 THEN
        RETURN NULL;
    END IF;
    IF place.policy IN ('standard', 'unit_of_work') THEN
        fills := coalesce(jsonb_typeof(context -> place.grouped), 'null') NOT IN ('string', 'number')
            OR coalesce(context ->> place.numbered, '') !~ '^-?\d{1,18}$'
            OR EXISTS (
                SELECT FROM {schema}.types
                WHERE coalesce(
                    definition #>> ARRAY['properties', place.grouped, 'type'],
                    definition #>> ARRAY['properties', place.grouped]
                ) NOT IN ('string', 'long')
            )
            OR ({schema}.waited_for(
                place.queue_id, place.policy = 'unit_of_work', ARRAY[NULL::text],
                ARRAY[context ->> place.grouped], ARRAY[(context ->> place.numbered)::bigint]
            ))[1];
    END IF;
    RETURN CASE WHEN NOT fills THEN place.queue END;
END
$function$;
