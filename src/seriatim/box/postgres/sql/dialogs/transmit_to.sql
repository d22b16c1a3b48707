-- Purpose: deliver what waits in the transmission queue for the services of a queue, as far as that has room.
-- Caller: transmission.py, in a transaction apart from the one that receives.
-- Locks: the rows of both sides of these dialogs; those that somebody has are passed over.
-- Index: services_of_queue, transmission_of_service, endpoints_pkey, entries_of_group.
SELECT {schema}.transmit_to(%(queue_id)s)
