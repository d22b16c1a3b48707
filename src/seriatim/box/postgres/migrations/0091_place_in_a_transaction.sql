-- A transaction has one stamp over all its locations, and its messages go in the order in which it published them: by
-- `serial`, a number of `arrival_ids` that each draws then. An arrival has that of its first message, so that a message
-- of a run without a gap has `arrival_id + position`; the spool says it where it has another one. An arrival of before
-- has a stamp of its own, and goes by the same sum.
ALTER TABLE {schema}.spool ADD COLUMN serial bigint;

DROP INDEX {schema}.entries_of_group;
-- Written once, without a second version of each row.
ALTER TABLE {schema}.entries ADD COLUMN serial bigint NOT NULL GENERATED ALWAYS AS (arrival_id + position) STORED;
ALTER TABLE {schema}.entries ALTER COLUMN serial DROP EXPRESSION;
-- What is judged by its ordinal. Of what has arrived, first that of which only the ticket tells when it was committed,
-- and then in order of commit, and within a transaction of publishing.
CREATE INDEX entries_of_group
ON {schema}.entries (queue_id, group_key, status, ordinal, stamp NULLS FIRST, serial);

DROP INDEX {schema}.to_route_in_order;
ALTER TABLE {schema}.to_route ADD COLUMN serial bigint NOT NULL GENERATED ALWAYS AS (arrival_id + position) STORED;
ALTER TABLE {schema}.to_route ALTER COLUMN serial DROP EXPRESSION;
CREATE INDEX to_route_in_order ON {schema}.to_route (stamp, serial);
