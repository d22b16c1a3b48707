-- Purpose: make a queue a pipeline's own, or see that it is. Answers with the pipeline that has it, if it is another.
-- Caller: feed.py, when a pipeline asks for its first batch of a run.
-- Locks: the definitions, and the queue's row, until the transaction ends; publishers wait for neither.
-- Index: queues_pkey, readers_pkey, changes_pkey.
SELECT {schema}.claim_queue(%(queue_id)s, %(reader)s, %(pipeline)s, %(is_new)s, %(takes_over)s) AS owner
