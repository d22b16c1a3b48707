-- Purpose: the moment of the transaction, for filters that compare with it.
SELECT now() AS moment
