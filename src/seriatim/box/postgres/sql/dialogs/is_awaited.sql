-- Purpose: does anything wait in the transmission queue for a service of this queue?
-- Caller: transmission.py, where a queue that may have so many messages hands nothing out.
-- Locks: none.
-- Index: services_of_queue, transmission_of_service.
SELECT {schema}.is_awaited(%(queue_id)s)
