-- Purpose: let one process at a time do a chore, however long its connection does nothing meanwhile: no limit of the
-- connection's or the server's ends the transaction, and with it the claim. It has no snapshot, so vacuum isn't held back.
-- Caller: chore.py.
-- Locks: an advisory lock of the schema and the chore, until the transaction ends; nobody waits for it.
-- Index: none.
SELECT {schema}.claim_chore(%(chore)s) AS mine
