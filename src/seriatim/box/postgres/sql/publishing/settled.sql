-- Purpose: where to look for messages published through SQL that wait to be routed, and the time of this look.
-- Index: to_route_of_transaction.
SELECT settled::text AS settled, unsettled::text AS unsettled, took_us FROM {schema}.settled()
