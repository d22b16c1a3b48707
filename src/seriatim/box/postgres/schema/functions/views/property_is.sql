-- Return whether a property of a message has a value given as text: the same text, or the same number.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.property_is(context jsonb, name text, value text) RETURNS boolean
RETURN coalesce(context ->> name = value, FALSE) OR CASE
    WHEN jsonb_typeof(context -> name) = 'number' AND value ~ '^-?\d{1,40}(\.\d{1,40})?$'
        THEN (context ->> name)::numeric = value::numeric
    ELSE FALSE
END;
