-- Purpose: fire the timers of dialogs that are due, and end what has outlived its lifetime; tells what is set aside.
-- Caller: clock.py, in a transaction of its own.
-- Locks: the rows of these dialogs and their groups, those passed over that others have.
-- Index: endpoints_due, endpoints_conversation_id_is_initiator_service_key, entries_of_group.
SELECT done, set_aside FROM {schema}.fire_dialogs(%(at_most)s)
