-- Gates: what is published while messages of an origin queue are worked on leaves a gate in the order of these messages.

-- A message has a place at its gate, by its group and its ordinal. Its place is open as long as something that descends from it is
-- alive: as long as there is a row of it in `entries`, in the origin queue or in a queue on the way. Nothing else says so, and
-- so nothing else can be wrong about it.
--
-- `gate_id`: of what is on the way to a gate, and of the results in it; NULL: neither. `origin_group`, `origin_number`: whose place it is:
-- NULL in the origin queue itself, where that is its own, by `group_key` and `ordinal`; in the gate `origin_group` is NULL, because
-- it is `group_key`.
ALTER TABLE {schema}.entries
ADD COLUMN gate_id integer, ADD COLUMN origin_group text COLLATE "C", ADD COLUMN origin_number bigint;

-- `placed`: a result in a gate, that waits for its place to be closed.
ALTER DOMAIN {schema}.entry_status DROP CONSTRAINT entry_status_check;
ALTER DOMAIN {schema}.entry_status ADD CONSTRAINT entry_status_check
CHECK (VALUE IN ('arrived', 'held', 'queued', 'in_hand', 'placed'));

-- What is alive, by place; and the results that wait.
CREATE INDEX entries_on_way
ON {schema}.entries (gate_id, coalesce(origin_group, group_key), coalesce(origin_number, ordinal)) WHERE gate_id <> queue_id;
CREATE INDEX entries_placed ON {schema}.entries (queue_id, group_key, origin_number) WHERE status = 'placed';

-- The places of messages that left their queue late, as a requeued one does that couldn't go back to its place: their results leave
-- the gate flagged as late, too. Gone when they have passed.
CREATE TABLE {schema}.late_places (
    gate_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (gate_id, group_key, number)
);

-- A message on the way ends, in whatever way: the gate's group is looked at. Whoever ends it neither asks nor waits for anybody.
--
-- A transaction asks for each group once: the setting `seriatim.looked` has those that it has asked for, as far as it has room. They
-- go with the savepoint after which they were asked for, as the requests do; and a turn of a gate in the same transaction, which
-- answers requests, forgets them.
CREATE FUNCTION {schema}.look_at_gate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    of_group text := coalesce(OLD.origin_group, OLD.group_key);
    own text := OLD.gate_id || ' ' || of_group;
    looked jsonb := coalesce(nullif(current_setting('seriatim.looked', TRUE), ''), '[]')::jsonb;
BEGIN
    IF OLD.late AND OLD.origin_number IS NULL AND OLD.ordinal IS NOT NULL THEN
        INSERT INTO {schema}.late_places (gate_id, group_key, number)
        VALUES (OLD.gate_id, OLD.group_key, OLD.ordinal) ON CONFLICT DO NOTHING;
    END IF;
    IF looked ? own THEN
        RETURN NULL;
    END IF;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    VALUES (OLD.gate_id, of_group, 'look', {schema}.now_us());
    PERFORM {schema}.call_waiters(ARRAY[OLD.gate_id], 1);
    PERFORM set_config('seriatim.looked', CASE
        WHEN jsonb_array_length(looked) < 100 THEN looked || to_jsonb(own) ELSE jsonb_build_array(own)
    END::text, TRUE);
    RETURN NULL;
END
$function$;
CREATE TRIGGER look_at_gate AFTER DELETE ON {schema}.entries
FOR EACH ROW WHEN (OLD.gate_id <> OLD.queue_id) EXECUTE FUNCTION {schema}.look_at_gate();
ALTER TABLE {schema}.entries ENABLE ALWAYS TRIGGER look_at_gate;
