-- Declarations say `on_hole = skip` only with a `hole_timeout`. Without one no hole was ever skipped: such a queue waits, and so
-- it says that from now on, or its declaration could not be read any more.

UPDATE {schema}.queues SET definition = jsonb_set(definition, '{{policy,on_hole}}', '"wait"')
WHERE definition #>> '{{policy,name}}' = 'standard' AND definition #>> '{{policy,on_hole}}' = 'skip'
    AND definition #>> '{{policy,hole_timeout}}' IS NULL;

UPDATE {schema}.queues SET definition = jsonb_set(definition, '{{policies}}', (
    SELECT jsonb_object_agg(kind, CASE
        WHEN policy ->> 'name' = 'standard' AND policy ->> 'on_hole' = 'skip' AND policy ->> 'hole_timeout' IS NULL
            THEN jsonb_set(policy, '{{on_hole}}', '"wait"')
        ELSE policy
    END)
    FROM jsonb_each(definition -> 'policies') AS one (kind, policy)
))
WHERE jsonb_typeof(definition -> 'policies') = 'object' AND definition -> 'policies' <> '{{}}'
    AND EXISTS (
        SELECT FROM jsonb_each(definition -> 'policies') AS one (kind, policy)
        WHERE policy ->> 'name' = 'standard' AND policy ->> 'on_hole' = 'skip' AND policy ->> 'hole_timeout' IS NULL
    );
