-- Purpose: where to look for what was published through SQL and waits to be routed, and how long it took to find that.
-- Index: to_route_of_transaction.
SELECT settled::text AS settled, unsettled::text AS unsettled, took_us FROM {schema}.settled()
