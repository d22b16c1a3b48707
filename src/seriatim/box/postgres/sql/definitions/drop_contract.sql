-- Purpose: drop a contract.
-- Locks: the contract's row.
-- Index: contracts_pkey.
DELETE FROM {schema}.contracts WHERE contract = %(name)s
