-- Roles: who may do what with the box.
--
-- A role has no right on any table, view or sequence. What it may call is SECURITY DEFINER: it does its work as the
-- owner of the box, and looks first whether the role may. All else is the owner's.

-- What a role may: publish to a queue, receive from it, subscribe for it, see it (with bodies or without), operate on
-- it; `dispense` numbers of a location; `route`, which is about no one queue: read and route whatever was published
-- through SQL.
CREATE TABLE {schema}.grants (
    role regrole NOT NULL,
    may text NOT NULL CHECK (
        may IN ('publish', 'receive', 'subscribe', 'route', 'dispense', 'see', 'see_bodies', 'operate')
    ),
    queue_id integer REFERENCES {schema}.queues ON DELETE CASCADE,
    granted_at timestamptz NOT NULL DEFAULT now(),
    granted_by text NOT NULL DEFAULT session_user,
    location text REFERENCES {schema}.locations ON DELETE CASCADE,
    CONSTRAINT grants_each_once UNIQUE NULLS NOT DISTINCT (role, may, queue_id, location),
    CONSTRAINT grants_queue_check CHECK ((queue_id IS NULL) = (may IN ('route', 'dispense'))),
    CONSTRAINT grants_location_check CHECK ((location IS NOT NULL) = (may = 'dispense'))
);
CREATE INDEX grants_of_queue ON {schema}.grants (queue_id);

-- The id space of each role that has rights: message ids are compared within one space only, so that no role learns of
-- another's ids, or takes them. The owner, and what it does for others, is in the space ''.
CREATE TABLE {schema}.id_spaces (
    role regrole PRIMARY KEY,
    id_space text COLLATE "C" NOT NULL CHECK (length(id_space) <= 128)
);

-- The types of messages that the subscriptions of a role may match. A type needn't be declared.
CREATE TABLE {schema}.granted_types (
    role regrole NOT NULL,
    type text COLLATE "C" NOT NULL CHECK (length(type) BETWEEN 1 AND 128),
    granted_at timestamptz NOT NULL DEFAULT now(),
    granted_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (role, type)
);
