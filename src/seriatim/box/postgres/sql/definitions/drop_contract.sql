-- Purpose: drop a contract.
-- Locks: the contract's row.
-- Index: contracts_pkey.
DELETE FROM {schema}.known_contracts WHERE contract = %(name)s
