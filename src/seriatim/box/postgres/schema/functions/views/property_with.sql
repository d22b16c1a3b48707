-- Return the first property, by name, that has a value given as text; NULL: none has it.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.property_with(context jsonb, value text) RETURNS text
RETURN (
    SELECT one.name FROM jsonb_object_keys(context) AS one (name)
    WHERE {schema}.property_is(context, one.name, value) ORDER BY one.name LIMIT 1
);
