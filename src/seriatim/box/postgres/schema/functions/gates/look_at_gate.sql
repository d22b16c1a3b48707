-- When an entry on the way to a gate is deleted, for any reason, request a look at the gate's group, see
-- `look_at_gates`. The deleting process neither requests nor waits for anything itself.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.look_at_gate() RETURNS trigger
AS $function$
BEGIN
    IF OLD.late AND OLD.origin_number IS NULL AND OLD.ordinal IS NOT NULL THEN
        INSERT INTO {schema}.late_places (gate_id, group_key, number)
        VALUES (OLD.gate_id, OLD.group_key, OLD.ordinal) ON CONFLICT DO NOTHING;
    END IF;
    PERFORM {schema}.look_at_gates(ARRAY[OLD.gate_id || ' ' || coalesce(OLD.origin_group, OLD.group_key)]);
    RETURN NULL;
END
$function$;
