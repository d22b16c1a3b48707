-- Return the error in the header of a message; NULL: none. `size`: of its body and parts.
CREATE OR REPLACE FUNCTION {schema}.link_wrong_header(message_id text, header text, size bigint) RETURNS text
AS $function$
DECLARE
    fields jsonb;
    ticket jsonb;
BEGIN
    IF (header IS JSON OBJECT WITH UNIQUE KEYS) IS NOT TRUE THEN
        RETURN 'is no JSON that says each name once';
    END IF;
    fields := header::jsonb;
    ticket := fields -> 'sent_by';
    IF NOT fields ?& '{type,content_type,space,context,property_types,sent_by,through,parts}'
        OR fields - '{type,content_type,space,context,property_types,sent_by,through,parts}'::text[] <> '{}' THEN
        RETURN 'has other names than the protocol says';
    ELSIF jsonb_typeof(ticket) <> 'object' OR NOT ticket ?& '{box,queue,location,epoch,number}'
        OR ticket - '{box,queue,location,epoch,number}'::text[] <> '{}' THEN
        RETURN 'has other names in sent_by than the protocol says';
    ELSIF jsonb_typeof(ticket -> 'queue') <> 'string' OR ticket ->> 'queue' = ''
        OR jsonb_typeof(ticket -> 'location') <> 'string'
        OR ticket ->> 'location' = '' OR jsonb_typeof(ticket -> 'epoch') <> 'number'
        OR ticket ->> 'epoch' !~ '^\d{1,18}$'
        OR jsonb_typeof(ticket -> 'number') <> 'number' OR ticket ->> 'number' !~ '^\d{1,18}$' THEN
        RETURN 'has a sent_by that is no ticket';
    ELSIF jsonb_typeof(fields -> 'type') <> 'string' OR jsonb_typeof(fields -> 'content_type') NOT IN ('string', 'null')
        OR jsonb_typeof(fields -> 'space') <> 'string' OR length(fields ->> 'space') > 128 THEN
        RETURN 'has a type, a content type or a space that is no text';
    ELSIF jsonb_typeof(fields -> 'through') <> 'array' OR jsonb_array_length(fields -> 'through') = 0
        OR EXISTS (
            SELECT FROM jsonb_array_elements(fields -> 'through') AS box
            WHERE (
                jsonb_typeof(box) = 'string' AND box #>> '{}' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
            ) IS NOT TRUE
        ) OR fields #> '{through,0}' <> coalesce(ticket -> 'box', 'null') THEN
        RETURN 'names no boxes that it went through, its home first';
    ELSIF jsonb_typeof(fields -> 'parts') <> 'array' OR EXISTS (
        SELECT FROM jsonb_array_elements(fields -> 'parts') AS part
        WHERE (
            jsonb_typeof(part) = 'object' AND part ?& '{name,content_type,size}'
            AND part - '{name,content_type,size}'::text[] = '{}' AND jsonb_typeof(part -> 'name') = 'string'
            AND length(part ->> 'name') BETWEEN 1 AND 256
            AND (
                part -> 'content_type' = 'null' OR jsonb_typeof(part -> 'content_type') = 'string'
                    AND part ->> 'content_type' <> ''
            )
            AND jsonb_typeof(part -> 'size') = 'number' AND part ->> 'size' ~ '^\d{1,9}$'
        ) IS NOT TRUE
    ) THEN
        RETURN 'has parts that are none';
    ELSIF (
        SELECT count(DISTINCT part ->> 'name') < count(*) OR sum((part ->> 'size')::bigint) > size
        FROM jsonb_array_elements(fields -> 'parts') AS part
    ) THEN
        RETURN 'has parts that are larger than the message, or have one name';
    END IF;
    RETURN {schema}.wrong_message(
        message_id, fields ->> 'type', 'link', fields ->> 'content_type', fields -> 'context',
        fields -> 'property_types', ''
    );
END
$function$;
