-- Return which of some messages a full queue takes nevertheless: those that fill a hole, because a later one of their
-- group (`whole`: any of their set) waits for them, and they are missing; at a gate those up to its first open place;
-- and those that were published before in the caller's id space, which add nothing. A caller without the right to
-- publish there, whose messages a role's subscription leads there, sees nothing of its content. `in_hand`: the
-- entries of messages that the caller works on.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.waited_for(
    of_queue integer, whole boolean, ids text[], group_keys text[], sequences bigint[], in_hand bigint[] DEFAULT '{}'
) RETURNS boolean[]
AS $function$
DECLARE
    may_know boolean := {schema}.is_owner() OR of_queue = ANY ({schema}.permitted('publish'));
    space text := {schema}.id_space();
    is_gate boolean := EXISTS (
        SELECT FROM {schema}.ways AS way WHERE way.queue_id = of_queue AND way.gate_id = of_queue
    );
BEGIN
    IF NOT may_know AND NOT {schema}.is_subscribed(of_queue) THEN
        PERFORM {schema}.permit('publish', ARRAY[of_queue]);
    END IF;
    RETURN ARRAY(
        SELECT EXISTS (
            SELECT FROM {schema}.message_ids AS known
            WHERE known.message_id = asked.message_id AND known.id_space = space
        ) OR is_gate AND (open.number < asked.sequence) IS NOT TRUE OR may_know AND EXISTS (
            SELECT FROM {schema}.entries AS later
            WHERE later.queue_id = of_queue AND later.group_key = asked.group_key
                AND later.status IN ('held', 'arrived') AND (whole OR later.sequence > asked.sequence)
        ) AND NOT EXISTS (
            SELECT FROM {schema}.entries AS same
            WHERE same.queue_id = of_queue AND same.group_key = asked.group_key
                AND same.status IN ('held', 'arrived') AND same.sequence = asked.sequence
        ) AND NOT EXISTS (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = asked.group_key AND known.next > asked.sequence
                AND NOT whole
        )
        FROM unnest(ids, group_keys, sequences) WITH ORDINALITY AS asked (message_id, group_key, sequence, place)
        LEFT JOIN (
            SELECT own.group_key, {schema}.first_open_at_gate(of_queue, own.group_key, in_hand) AS number
            FROM (SELECT DISTINCT key FROM unnest(group_keys) AS one (key) WHERE is_gate) AS own (group_key)
        ) AS open ON open.group_key = asked.group_key
        ORDER BY place
    );
END
$function$;
