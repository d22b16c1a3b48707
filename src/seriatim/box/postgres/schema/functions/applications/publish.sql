-- Take a message in, within the caller's transaction: for triggers, procedures and other languages. It gets its ticket
-- when the transaction commits, and is then routed by the next process that routes. Return its id. A message whose id
-- was published before in the caller's id space is left out. It is handed out after `delay`, or from `visible_at` on.
-- `delivery`, `position`: it results from that message in hand.
-- docs/how-to/publish-from-sql.md describes it.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.publish(
    type text, body bytea, context jsonb DEFAULT '{}', message_id text DEFAULT NULL, content_type text DEFAULT NULL,
    location text DEFAULT 'box', parts {schema}.part[] DEFAULT NULL, delay interval DEFAULT NULL,
    visible_at timestamptz DEFAULT NULL, "unique" text DEFAULT NULL, unrouted text DEFAULT NULL,
    delivery uuid DEFAULT NULL, "position" integer DEFAULT NULL
) RETURNS text
AS $function$
#variable_conflict use_variable
DECLARE
    id text := coalesce(message_id, {schema}.new_message_id());
    wrong text;
    permitted integer[];
    arrival bigint;
    space text := {schema}.id_space();
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    wrong := CASE
        WHEN coalesce(type, '') = '' THEN 'a message needs a type'
        WHEN body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
        WHEN octet_length(body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        WHEN content_type = '' THEN 'the content type of a message can''t be empty, but it can be NULL'
        WHEN id = '' THEN 'the id of a message can''t be empty; left out, it is made'
        -- An index has to hold it.
        WHEN octet_length(id) > 1024 THEN 'the id of a message can have 1024 bytes at most'
        WHEN coalesce(jsonb_typeof(context), 'null') <> 'object' THEN
            'the context of a message is a JSON object: its properties'
        WHEN coalesce(length(location), 0) NOT BETWEEN 1 AND 128 THEN 'the name of a location has 1 to 128 characters'
        WHEN location <> 'box' AND context -> 'location' <> to_jsonb(location) THEN
            'the location is given twice: as an argument, and as a property'
        WHEN delay < interval '0' THEN 'a delay can''t be negative'
        WHEN delay IS NOT NULL AND visible_at IS NOT NULL THEN
            'delay and visible_at can''t be combined: give one of them'
        WHEN octet_length("unique") NOT BETWEEN 1 AND 1024 THEN 'unique has 1 to 1024 bytes'
        WHEN context -> 'unique_key' <> to_jsonb("unique") THEN
            'the unique key is given twice: as an argument, and as a property'
        WHEN unrouted = 'refuse' THEN
            'SQL can''t refuse a message that reaches no queue, because it is routed after the commit: use ''keep'''
        WHEN unrouted <> 'keep' THEN 'unrouted can only be ''keep'''
        WHEN (delivery IS NULL) <> ("position" IS NULL) THEN
            'delivery and position belong together: they name the message that this one results from'
        ELSE {schema}.wrong_moment(seen_from)
    END;
    IF wrong IS NULL AND context <> '{}' THEN
        SELECT format('the property "%s" %s', left(property.key, 128), looked.problem) INTO wrong
        FROM jsonb_each(context) AS property, LATERAL (SELECT CASE
            WHEN property.key = ANY (
                '{type,message_id,ticket,epoch,received_at,origin_queue,origin_group,origin_incarnation,origin_ordinal,link_sent_by,link_through,link_replayed}'
            ) THEN
                'can''t be given: it is an argument, or the box gives it'
            WHEN jsonb_typeof(property.value) IN ('object', 'array') THEN
                'can''t be an ' || jsonb_typeof(property.value) || ': a string, a number, a boolean or null'
            WHEN jsonb_typeof(property.value) = 'number' AND length(property.value::text) > 100 THEN
                'has more digits than a property can have'
            WHEN property.key = 'location' AND jsonb_typeof(property.value) <> 'null' AND (
                jsonb_typeof(property.value) <> 'string'
                OR length(property.value #>> '{}') NOT BETWEEN 1 AND 128
            ) THEN 'is not a location''s name: 1 to 128 characters'
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY property.key LIMIT 1;
    END IF;
    IF wrong IS NULL AND cardinality(parts) > 0 THEN
        SELECT format('part %s %s', part.number, looked.problem) INTO wrong
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number), LATERAL (SELECT CASE
            WHEN coalesce(length(part.name), 0) NOT BETWEEN 1 AND 256 THEN 'needs a name of 1 to 256 characters'
            WHEN part.content_type = '' THEN 'can''t have an empty content type, but it can be NULL'
            WHEN part.body IS NULL THEN 'can''t be NULL, but its body can be empty'
            WHEN part.number > (
                SELECT min(other.number) FROM unnest(parts) WITH ORDINALITY AS other (name, content_type, body, number)
                WHERE other.name = part.name
            ) THEN format('has the name of another one, "%s"', left(part.name, 128))
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY part.number LIMIT 1;
        IF octet_length(body) + (SELECT sum(octet_length(part.body)) FROM unnest(parts) AS part) > 536870912 THEN
            wrong := 'the body of a message can have 536870912 bytes at most, its parts included';
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.message_ids (message_id, id_space) VALUES (id, space) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN id;
    END IF;
    IF context ? 'to' AND {schema}.full_for(context) IS NOT NULL THEN
        RAISE EXCEPTION 'the queue "%" is full', context ->> 'to' USING
            ERRCODE = 'configuration_limit_exceeded',
            HINT = 'publish the message again later';
    END IF;
    IF delivery IS NOT NULL THEN
        context := {schema}.result_of(delivery, "position", context);
    END IF;
    IF "unique" IS NOT NULL THEN
        context := context || jsonb_build_object('unique_key', "unique");
    END IF;
    IF location <> 'box' THEN
        context := context || jsonb_build_object('location', location);
    END IF;
    IF NOT {schema}.is_owner() THEN
        permitted := {schema}.permitted('publish');
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids, publisher, permitted)
    VALUES (coalesce(context ->> 'location', location), 1, '{0}', {schema}.caller(), permitted)
    RETURNING arrival_id INTO arrival;
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, body, parts, id_space, visible_at
    )
    VALUES (arrival, 0, id, type, content_type, context, body, nullif(cardinality(parts), 0), space, seen_from);
    IF cardinality(parts) > 0 THEN
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival, 0, part.number, part.name, part.content_type, part.body
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number);
    END IF;
    RETURN id;
END
$function$;
