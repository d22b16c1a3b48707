-- Purpose: make a contract.
-- Locks: none that others wait for.
-- Index: contracts_pkey.
INSERT INTO {schema}.known_contracts (contract, definition) VALUES (%(name)s, %(definition)s::jsonb)
ON CONFLICT (contract) DO UPDATE SET definition = excluded.definition
