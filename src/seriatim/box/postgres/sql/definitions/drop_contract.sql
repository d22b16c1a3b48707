-- Purpose: drop a contract.
-- Caller: define.py, which has seen that nothing uses it.
-- Locks: the contract's row.
-- Index: contracts_pkey.
DELETE FROM {schema}.contracts WHERE contract = %(name)s
