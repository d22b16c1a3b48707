-- Purpose: let one transaction at a time change what is defined.
-- Caller: define.py, apply.py and switches.py, first.
-- Locks: an advisory lock of the schema, until the transaction ends. Nobody but those who define waits for it.
-- Index: grants_each_once.
SELECT {schema}.lock_definitions()
