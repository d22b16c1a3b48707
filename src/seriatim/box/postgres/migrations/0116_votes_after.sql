-- `votes_after`: the box has gone back in time since it took in the messages through this arrival; votes for them don't count.
ALTER TABLE {schema}.region_roles ADD COLUMN votes_after bigint NOT NULL DEFAULT 0;
