-- From the last version before the baseline: what is made by its tables and wasn't there.
CREATE TABLE {schema}.function_sets (
    set_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    checksum text NOT NULL UNIQUE,
    names text[] NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
DELETE FROM {schema}.migrations;
ALTER SEQUENCE {schema}.edited_bodies_edit_id_seq RENAME TO edits_edit_id_seq;
ALTER TABLE {schema}.id_spaces DROP COLUMN since_upgrade;
DROP FUNCTION {schema}.take_in_one_on_way;
DROP FUNCTION {schema}.permit_entries_for;
DROP FUNCTION {schema}.record_caused_events;
DROP FUNCTION {schema}.let_in;
DROP FUNCTION {schema}.shut_out;
DROP FUNCTION {schema}.link_let_in;
DROP FUNCTION {schema}.link_shut_out;
