-- Purpose: deliver what waits in the transmission queue for services that are there now.
-- Caller: define.py, where services have come or changed, while nobody publishes.
-- Locks: the rows of both sides of these dialogs.
-- Index: transmission_of_service, services_pkey, endpoints_pkey.
SELECT {schema}.transmit()
