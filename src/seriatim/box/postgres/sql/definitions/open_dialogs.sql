-- Purpose: how many dialogs that aren't closed go by a contract, or how many sides a service has.
-- Index: endpoints_of_contract; none for a service.
SELECT count(*) FROM {schema}.endpoints
WHERE state <> 'CD' AND contract = %(contract)s::text OR service = %(service)s::text
