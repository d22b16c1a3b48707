-- Return the error in the properties of a message that are large, or have types that JSON lacks; NULL: none.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.wrong_properties(properties jsonb, property_types jsonb) RETURNS text
AS $function$
BEGIN
    IF EXISTS (
        SELECT FROM jsonb_each(properties) AS one
        WHERE jsonb_typeof(one.value) = 'number' AND length(one.value::text) > 100
    ) THEN
        RETURN 'a property has more digits than a property can have';
    END IF;
    IF jsonb_typeof(property_types) <> 'object' THEN
        RETURN 'the types of properties are a JSON object';
    END IF;
    IF property_types IS NOT NULL AND EXISTS (
        SELECT FROM jsonb_each(property_types) AS one
        WHERE CASE WHEN jsonb_typeof(properties -> one.key) = 'null' THEN FALSE ELSE CASE one.value
            WHEN '"decimal"' THEN jsonb_typeof(properties -> one.key) = 'number'
            WHEN '"double"' THEN jsonb_typeof(properties -> one.key) = 'number'
            WHEN '"timestamp"' THEN
                properties ->> one.key
                ~ '^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}\+00:00$'
                AND isfinite((properties ->> one.key)::timestamptz)
        END IS NOT TRUE END
    ) THEN
        RETURN 'a property isn''t of the type that is said of it';
    END IF;
    RETURN NULL;
END
$function$;
