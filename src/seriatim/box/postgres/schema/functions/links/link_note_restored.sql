-- Note in both logs that a stream can't be made whole: an event of its group, and an entry in the operator log.
CREATE OR REPLACE FUNCTION {schema}.link_note_restored(
    of_link integer, its_reason text, of_queue text, of_group text, its_details jsonb
) RETURNS void
AS $function$
DECLARE
    operation bigint;
    above bigint := (its_details ->> 'lacks_above')::bigint;
    through bigint := (its_details ->> 'through')::bigint;
BEGIN
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
    SELECT 'seriatim', 'stream restored', of_queue, of_group, its_reason,
        jsonb_build_object('link', one.link, 'box', one.peer) || its_details
    FROM {schema}.known_links AS one WHERE one.link_id = of_link
    RETURNING operation_id INTO operation;
    INSERT INTO {schema}.events (queue_id, group_key, incarnation, kind, first, last, count, at, operation_id)
    SELECT place.queue_id, of_group, coalesce(known.incarnation, place.incarnation), 'restored',
        CASE WHEN above < through THEN above + 1 END, CASE WHEN above < through THEN through END,
            greatest(1, through - above),
        clock_timestamp(), operation
    FROM {schema}.queues AS place
    LEFT JOIN {schema}.known_groups AS known ON known.queue_id = place.queue_id AND known.group_key = of_group
    WHERE place.queue = of_queue AND of_group IS NOT NULL AND place.definition #>> '{policy,name}' <> 'unordered';
END
$function$;
