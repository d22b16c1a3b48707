-- The keys before which the sessions of queues are over.
SELECT queue, over_before FROM {schema}.queues WHERE name = %(name)s AND over_before IS NOT NULL
