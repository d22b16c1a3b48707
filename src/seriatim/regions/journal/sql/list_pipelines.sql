-- Pipelines, with who has their leases. With a name: this one only.
SELECT name, version, region, holder, lease_until, held_since, take_overs, {STATEMENT_US} AS now
FROM {schema}.pipelines
WHERE %(name)s::text IS NULL OR name = %(name)s
ORDER BY name
