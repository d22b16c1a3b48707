-- The regions of a name, which stay as they are until the transaction ends: a region that was restored waits in `fence`.
SELECT region, incarnation FROM {schema}.regions WHERE name = %(name)s ORDER BY region FOR SHARE
