-- Note what both regions say of a queue; a queue that is known stays as it is.
INSERT INTO {schema}.queues (name, queue, start, increment, attempts, goes_on, retry_after, hole_timeout)
VALUES (%(name)s, %(queue)s, %(start)s, %(increment)s, %(attempts)s, %(goes_on)s, %(retry_after)s, %(hole_timeout)s)
ON CONFLICT (name, queue) DO NOTHING
