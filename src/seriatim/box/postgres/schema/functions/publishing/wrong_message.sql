-- Return the error in a message from outside; NULL: none. `property_types`: of the properties whose types JSON lacks;
-- receivers make values of them. One expression, so that it is inlined.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.wrong_message(
    id text, of_type text, at_location text, of_content_type text, properties jsonb, property_types jsonb, body bytea
) RETURNS text
RETURN CASE
    WHEN coalesce(of_type, '') = '' THEN 'a message needs a type'
    WHEN coalesce(octet_length(id), 0) NOT BETWEEN 1 AND 1024 THEN 'the id of a message has 1 to 1024 bytes'
    WHEN coalesce(length(at_location), 0) NOT BETWEEN 1 AND 128 THEN 'the name of a location has 1 to 128 characters'
    WHEN of_content_type = '' THEN 'the content type of a message can''t be empty, but it can be NULL'
    WHEN body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
    WHEN octet_length(body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
    WHEN jsonb_typeof(properties) IS DISTINCT FROM 'object' THEN
        'the context of a message is a JSON object: its properties'
    WHEN properties ?| '{type,message_id,ticket,epoch,received_at,origin_queue,origin_group,origin_incarnation,origin_ordinal,link_sent_by,link_through,link_replayed}' THEN
        'type, message_id, ticket, epoch, received_at and those of an origin or a link can''t be given as properties'
    WHEN properties @? 'strict $.* ? (@.type() == "object" || @.type() == "array")' THEN
        'a property is a string, a number, a boolean or null'
    -- A number of more digits makes the whole longer.
    WHEN property_types IS NOT NULL OR length(properties::text) > 100 THEN
        {schema}.wrong_properties(properties, property_types)
END;
