-- What operators did, the latest first.
SELECT name, queue, session, at, actor, action, reason, detail
FROM {schema}.operator_log
WHERE (%(name)s::text IS NULL OR name = %(name)s)
    AND (%(queue)s::text IS NULL OR queue = %(queue)s)
    AND (%(session)s::text IS NULL OR session = %(session)s)
ORDER BY at DESC, id
LIMIT %(limit)s
