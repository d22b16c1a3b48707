-- Purpose: deliver what waits in the transmission queue for services that are there now, and have room.
-- Caller: define.py, where services and queues have come or changed; transmission.py.
-- Locks: the rows of both sides of these dialogs; those that somebody has are passed over.
-- Index: transmission_of_service, services_pkey, endpoints_pkey, entries_of_group.
SELECT {schema}.transmit()
