-- What operators asked of locked groups is looked for with each turn: it stands apart from the requests to look at a
-- group, of which there may be one for each group of a queue.
CREATE INDEX requests_asked ON {schema}.requests (queue_id, group_key) WHERE action <> 'look';
