-- Purpose: make a contract.
-- Caller: define.py, which has seen that there is none of that name that can be read.
-- Locks: none that others wait for.
-- Index: contracts_pkey.
INSERT INTO {schema}.contracts (contract, definition) VALUES (%(name)s, %(definition)s::jsonb)
ON CONFLICT (contract) DO UPDATE SET definition = excluded.definition
