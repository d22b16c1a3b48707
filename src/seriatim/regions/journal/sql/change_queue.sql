-- Change what may change while sessions are there.
UPDATE {schema}.queues
SET attempts = %(attempts)s, goes_on = %(goes_on)s, retry_after = %(retry_after)s, hole_timeout = %(hole_timeout)s
WHERE name = %(name)s AND queue = %(queue)s
