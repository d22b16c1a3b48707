-- What tasks stage has its bodies in the spool already, under an arrival that has no ticket. So a crash of the server must not lose the
-- list of the parts. `number`: the place of a part in its batch.
ALTER TABLE {schema}.parts SET LOGGED;
ALTER TABLE {schema}.parts ADD COLUMN number bigint NOT NULL DEFAULT 0;

-- The arrivals of the parts that are staged: one for each location. A part without one has its messages in `staged_messages`.
CREATE TABLE {schema}.staged_arrivals (
    arrival_id bigint PRIMARY KEY,
    part_id bigint NOT NULL,
    location text NOT NULL,
    count bigint NOT NULL
);
CREATE INDEX staged_arrivals_of_part ON {schema}.staged_arrivals (part_id);

-- Where in the spool their messages are; NULL: they are in `staged_messages`. `queue_id` is NULL for a message that goes nowhere; `problem`
-- then says why, if there is a reason.
ALTER TABLE {schema}.staged_entries ADD COLUMN arrival_id bigint, ADD COLUMN position bigint;
ALTER TABLE {schema}.staged_entries ALTER COLUMN queue_id DROP NOT NULL;

-- The place of its first message in the transaction; NULL: `arrival_id`.
ALTER TABLE {schema}.arrivals ADD COLUMN serial bigint;
