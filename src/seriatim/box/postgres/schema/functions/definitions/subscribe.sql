-- Make a subscription, or change one. That of a role matches only messages of the types granted to the role by whose
-- right it is made: the caller, or one that it is a member of.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.subscribe(
    named text, to_queue text, declared jsonb, its_state text
) RETURNS void
AS $function$
DECLARE
    place integer := (SELECT queue_id FROM {schema}.queues WHERE queue = to_queue);
    wrong text := {schema}.wrong_subscription(named, to_queue, declared, its_state);
    owning regrole;
BEGIN
    -- The present and the former target.
    PERFORM {schema}.permit('subscribe', ARRAY(
        SELECT place WHERE place IS NOT NULL
        UNION ALL
        SELECT queue_id FROM {schema}.known_subscriptions WHERE subscription = named
    ));
    IF place IS NULL THEN
        wrong := coalesce(wrong, format('there is no queue "%s"', left(to_queue, 128)));
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the subscription "%" can''t be defined: %', left(named, 128), wrong USING
            ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT {schema}.is_owner() THEN
        SELECT given.role INTO owning FROM {schema}.grants AS given
        WHERE given.may = 'subscribe' AND given.queue_id = place
            AND pg_has_role({schema}.caller(), given.role::oid, 'USAGE')
        ORDER BY pg_get_userbyid(given.role::oid) <> {schema}.caller(), given.role::oid LIMIT 1;
        IF cardinality({schema}.types_of(owning)) = 0 THEN
            RAISE EXCEPTION 'the role "%" may subscribe to no type of message', pg_get_userbyid(owning::oid) USING
                ERRCODE = 'insufficient_privilege',
                HINT = 'seriatim box grant ROLE --type TYPE';
        END IF;
    END IF;
    INSERT INTO {schema}.known_subscriptions AS known (subscription, queue_id, definition, state, subscriber)
    VALUES (named, place, declared, its_state, owning)
    ON CONFLICT (subscription) DO UPDATE
    SET definition = excluded.definition, queue_id = excluded.queue_id, state = excluded.state,
        subscriber = excluded.subscriber;
END
$function$;
