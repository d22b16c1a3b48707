-- Purpose: let one process at a time do a chore.
-- Caller: chore.py, first in each transaction of the chore.
-- Locks: an advisory lock of the schema and the chore, until the transaction ends; nobody waits for it.
-- Index: none.
SELECT {schema}.claim_chore(%(chore)s) AS mine
