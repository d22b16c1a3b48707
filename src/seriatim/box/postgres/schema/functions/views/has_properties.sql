-- Return whether a message has all of these properties.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.has_properties(context jsonb, names text[], of_values text[]) RETURNS boolean
RETURN NOT EXISTS (
    SELECT FROM unnest(names, of_values) AS asked (name, value)
    WHERE NOT {schema}.property_is(context, asked.name, asked.value)
);
