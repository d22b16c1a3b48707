-- Purpose: keep what is defined as it is until the transaction ends, and give its version.
-- Caller: staging.py; two statements in one, since the version has to be read after the lock.
-- Locks: as publish.
-- Index: changes_pkey.
SELECT {schema}.hold_definitions()
