-- Request a look once for each group and transaction, until the gate has looked: `close_places` forgets the requests.
-- `groups`: the number of a gate, a space, and the key of a group.
CREATE OR REPLACE FUNCTION {schema}.look_at_gates(groups text[]) RETURNS void
AS $function$
DECLARE
    looked jsonb := coalesce(nullif(current_setting('seriatim.looked_{schema_name}', TRUE), ''), '[]')::jsonb;
    unasked text[] := ARRAY(SELECT own FROM unnest(groups) AS own WHERE NOT looked ? own);
BEGIN
    IF unasked = '{}' THEN
        RETURN;
    END IF;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT split_part(own, ' ', 1)::integer, substr(own, strpos(own, ' ') + 1), 'look', {schema}.now_us()
    FROM unnest(unasked) AS own;
    PERFORM {schema}.call_waiters(ARRAY[gate_id], count(*)) FROM (
        SELECT split_part(own, ' ', 1)::integer AS gate_id FROM unnest(unasked) AS own
    ) AS asked GROUP BY gate_id;
    -- A forgotten group is requested twice at worst.
    PERFORM set_config('seriatim.looked_{schema_name}', CASE
        WHEN jsonb_array_length(looked) < 100 THEN looked || to_jsonb(unasked) ELSE to_jsonb(unasked)
    END::text, TRUE);
END
$function$;
