-- Sessions of a queue of two regions whose keys are below `closed_before` take no messages any more; below `over_before`
-- all of them are over in the journal, and forgotten. A bound takes the place of a row for each session.
ALTER TABLE {schema}.region_queues
ADD COLUMN closed_before text COLLATE "C", ADD COLUMN over_before text COLLATE "C";
