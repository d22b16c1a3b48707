-- Purpose: who keeps the definitions from being changed, in words: transactions that publish, or whoever took their lock.
SELECT {schema}.holders_of({schema}.lock_of('publishers')) AS holders
