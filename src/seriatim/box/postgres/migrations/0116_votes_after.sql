-- `votes_after`: the box has gone back in time since it took in the messages through this arrival; votes for them don't count.
ALTER TABLE {schema}.region_roles ADD COLUMN votes_after bigint NOT NULL DEFAULT 0;
-- `refilled`: the incarnation of the other region for which all messages that it may lack went into the outbox. Earlier
-- versions of seriatim only raised `fence`.
ALTER TABLE {schema}.region_roles ADD COLUMN refilled bigint NOT NULL DEFAULT 0;
