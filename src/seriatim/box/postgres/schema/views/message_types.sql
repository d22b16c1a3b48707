-- The message types, for roles with any right in this box.
CREATE OR REPLACE VIEW {schema}.message_types AS
SELECT
    type AS message_type,
    coalesce(definition -> 'properties', '{}') AS properties,
    definition ->> 'validation' AS validation
FROM {schema}.types;
