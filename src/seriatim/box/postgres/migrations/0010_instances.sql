-- Instances: what subscriptions start, and what leads to them.

CREATE SEQUENCE {schema}.instance_ids;

-- What runs: of a group of a queue one, made by an activation when the first message of the group was worked on. Only
-- a turn, which has the group's lock, and operators under the same lock write here; what has ended is gone. `state`:
-- what a handler keeps of it, as it wrote it; `version`: how often that was written.
CREATE TABLE {schema}.known_instances (
    instance_id bigint PRIMARY KEY,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    subscription_id integer NOT NULL REFERENCES {schema}.known_subscriptions,
    state json NOT NULL CHECK (json_typeof(state) = 'object'),
    version bigint NOT NULL DEFAULT 1,
    started_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (queue_id, group_key)
) WITH (fillfactor = 70);
CREATE INDEX instances_of_subscription ON {schema}.known_instances (subscription_id);

-- What an instance has added to the key of its group: messages that have one of these values are for it. The key says
-- that they lead a message to one instance of a queue, and is what publishers look into.
CREATE TABLE {schema}.correlations (
    queue_id integer NOT NULL,
    property text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    instance_id bigint NOT NULL REFERENCES {schema}.known_instances ON DELETE CASCADE,
    PRIMARY KEY (queue_id, property, value)
);
CREATE INDEX correlations_of_instance ON {schema}.correlations (instance_id);

-- The instance of a group, or the id of one to be; `added`: the pairs of properties and values that it has added.
CREATE FUNCTION {schema}.find_instance(
    of_queue integer, of_group text,
    OUT number bigint, OUT made_by integer, OUT kept_state text, OUT known_version bigint, OUT added text[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT known.instance_id, known.subscription_id, known.state::text, known.version
    INTO number, made_by, kept_state, known_version
    FROM {schema}.known_instances AS known WHERE known.queue_id = of_queue AND known.group_key = of_group;
    IF FOUND THEN
        SELECT array_agg(ARRAY[one.property, one.value]) INTO added
        FROM {schema}.correlations AS one WHERE one.instance_id = number;
    ELSE
        number := nextval('{schema}.instance_ids');
    END IF;
END
$function$;

-- Write down what a handler made of an instance; the caller has the lock of its group. `known_version`: NULL makes it.
-- `new_state`: NULL leaves it. `kept`: FALSE where it isn't there any more as the caller knew it. `taken`: which of the
-- values leads to another instance already; then the caller rolls back.
CREATE FUNCTION {schema}.keep_instance(
    of_instance bigint, of_queue integer, of_group text, of_subscription integer, known_version bigint,
    new_state text, properties text[], new_values text[], OUT kept boolean, OUT taken text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    IF known_version IS NULL THEN
        INSERT INTO {schema}.known_instances (instance_id, queue_id, group_key, subscription_id, state)
        VALUES (of_instance, of_queue, of_group, of_subscription, new_state::json);
        kept := TRUE;
    ELSE
        UPDATE {schema}.known_instances AS known SET
            state = coalesce(new_state::json, known.state), version = known.version + 1, changed_at = now()
        WHERE known.instance_id = of_instance AND known.queue_id = of_queue AND known.version = known_version;
        kept := FOUND;
    END IF;
    IF kept AND cardinality(properties) > 0 THEN
        -- In one order for all, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.correlations (queue_id, property, value, instance_id)
        SELECT of_queue, one.property, one.value, of_instance
        FROM unnest(properties, new_values) AS one (property, value)
        ORDER BY one.property, one.value
        ON CONFLICT DO NOTHING;
        SELECT known.property || ' = ' || known.value INTO taken
        FROM unnest(properties, new_values) AS one (property, value)
        JOIN {schema}.correlations AS known
            ON known.queue_id = of_queue AND known.property = one.property AND known.value = one.value
        WHERE known.instance_id <> of_instance
        LIMIT 1;
    END IF;
END
$function$;

-- End an instance: nothing leads to it any more. FALSE where it isn't there any more as the caller knew it.
CREATE FUNCTION {schema}.end_instance(of_instance bigint, of_queue integer, known_version bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    DELETE FROM {schema}.known_instances
    WHERE instance_id = of_instance AND queue_id = of_queue AND version = known_version;
    RETURN FOUND;
END
$function$;

-- A message that was for an instance which has ended meanwhile, and that no activation can take: set aside as dead. The
-- caller has the lock of its group, and has been handed it.
CREATE FUNCTION {schema}.set_stray_aside(of_queue integer, of_group text, of_message text, of_ordinal bigint, why text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    WITH gone AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group
            AND stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
            AND stored.message_id = of_message
        RETURNING entry.*
    )
    INSERT INTO {schema}.aside (
        entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
        subscription_ids, ordinal, late, attempt
    )
    SELECT
        entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
        subscription_ids, of_ordinal, late, attempt
    FROM gone;
END
$function$;

-- The groups, and the activations, of the instances that have added some values; a row for each, in order.
CREATE FUNCTION {schema}.led_by(of_queues integer[], properties text[], its_values text[])
RETURNS TABLE (led_to text, activation integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT known.group_key, known.subscription_id
    FROM unnest(of_queues, properties, its_values) WITH ORDINALITY AS asked (queue_id, property, value, place)
    LEFT JOIN {schema}.correlations AS added
        ON added.queue_id = asked.queue_id AND added.property = asked.property COLLATE "C"
        AND added.value = asked.value COLLATE "C"
    LEFT JOIN {schema}.known_instances AS known USING (instance_id)
    ORDER BY asked.place;
END
$function$;

-- How many instances of a starting subscription run, with `of_property` only those that have added a value of it; counted no
-- further than to a bit more than a thousand.
CREATE FUNCTION {schema}.running_of(of_subscription integer, of_property text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY(
        SELECT queue_id FROM {schema}.known_subscriptions WHERE subscription_id = of_subscription
    ));
    RETURN (
        SELECT count(*) FROM (
            SELECT FROM {schema}.known_instances AS known
            WHERE known.subscription_id = of_subscription AND (of_property IS NULL OR EXISTS (
                SELECT FROM {schema}.correlations AS added
                WHERE added.instance_id = known.instance_id AND added.property = of_property
            ))
            LIMIT 1001
        ) AS found
    );
END
$function$;

-- The instances as they stand, read without locks. `status`: suspended where their group is. `correlations`: the values
-- by property, without the key of the group.
CREATE VIEW {schema}.instances AS
SELECT
    known.instance_id,
    place.queue,
    known.group_key,
    CASE WHEN coalesce((
        SELECT action = 'suspend' FROM {schema}.requests AS request
        WHERE request.queue_id = known.queue_id AND request.group_key = known.group_key AND request.action <> 'look'
        ORDER BY request_id DESC LIMIT 1
    ), judged.flags & 8 <> 0, FALSE) THEN 'suspended' ELSE 'running' END AS status,
    one.subscription,
    one.definition ->> 'starts' AS starts,
    coalesce((
        SELECT jsonb_object_agg(each.property, each.found) FROM (
            SELECT added.property, jsonb_agg(added.value ORDER BY added.value) AS found
            FROM {schema}.correlations AS added
            WHERE added.instance_id = known.instance_id GROUP BY added.property
        ) AS each
    ), '{{}}') AS correlations,
    (
        SELECT count(*) FROM {schema}.entries AS entry
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key
    ) AS waiting,
    known.state,
    known.version,
    known.started_at,
    known.changed_at
FROM {schema}.known_instances AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.known_subscriptions AS one USING (subscription_id)
LEFT JOIN {schema}.known_groups AS judged ON judged.queue_id = known.queue_id AND judged.group_key = known.group_key;
