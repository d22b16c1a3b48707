-- Messages are stored about in the order of their times: so an index of the times that each run of pages has finds a message by the moment
-- that is kept with its id. It has no entry for each message, and costs a publisher nothing that can be measured.
CREATE INDEX spool_by_time ON {schema}.spool USING brin (received_at) WITH (pages_per_range = 32);
