-- Return by link the sides of dialogs that have said something which the other box hasn't acknowledged for so long: how
-- many, since when, and the oldest one; and those whose box has sent something that can't be obeyed here, with the reason.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.unanswered_dialogs(
    older_than interval, OUT link text, OUT problem text, OUT dialogs bigint, OUT since timestamptz, OUT key text
) RETURNS SETOF record
BEGIN ATOMIC
    SELECT road.link, said.problem, count(DISTINCT said.key), min(said.since), (array_agg(said.key ORDER BY said.since))[1]
    FROM (
        SELECT own.link_id, NULL::text AS problem, {schema}.dialog_key(own.conversation_id, own.is_initiator) AS key,
            one.sent_at AS since
        FROM {schema}.known_transmission AS one JOIN {schema}.endpoints AS own USING (handle)
        WHERE one.link_id IS NOT NULL AND one.type <> ''
        UNION ALL
        SELECT one.link_id, NULL, {schema}.dialog_key(one.conversation_id, one.is_initiator), one.said_at
        FROM {schema}.dialog_records AS one
        UNION ALL
        -- The id of a message begins with the key of its side.
        SELECT stream.link_id, NULL, left(sent.message_id, 38), sent.entered_at
        FROM {schema}.link_streams_out AS stream JOIN {schema}.link_messages AS sent
            ON sent.stream_id = stream.stream_id AND sent.number > stream.acked
        WHERE stream.queue_id = 0 AND stream.acked < stream.sent AND sent.message_id NOT LIKE '%:check'
        UNION ALL
        SELECT come.link_id, come.problem, {schema}.dialog_key(come.conversation_id, come.to_initiator), come.came_at
        FROM {schema}.dialog_inbox AS come WHERE come.problem IS NOT NULL
    ) AS said
    JOIN {schema}.known_links AS road USING (link_id)
    WHERE said.problem IS NOT NULL OR said.since <= clock_timestamp() - older_than
    GROUP BY road.link, said.problem ORDER BY road.link, said.problem;
END;
