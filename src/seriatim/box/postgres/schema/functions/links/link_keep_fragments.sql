-- Keep the fragments in a part of a message, if they follow those that are here. Return how many are here then; -1:
-- the part contradicts the announcement of the message, or all fragments are here and have another digest.
-- is: generic plan, no seqscan, no jit
CREATE OR REPLACE FUNCTION {schema}.link_keep_fragments(
    of_link integer, frame bytea, at bigint, of_incarnation bigint, of_number bigint, name text, key text,
    its_begins bytea, after bigint,
    told_chain bytea, its_digest bytea, its_size bigint, part_from bigint, part_length bigint, id_length bigint,
    header_length bigint
) RETURNS bigint
AS $function$
DECLARE
    fragment_bytes CONSTANT bigint := 1048576;
    here {schema}.link_streams_in;
    its_id text := convert_from(substring(frame, (at + 1)::integer, id_length::integer), 'UTF8');
    header bytea := substring(frame, (at + id_length + 1)::integer, header_length::integer);
    there bigint;
BEGIN
    IF EXISTS (
        SELECT FROM {schema}.link_numbers AS known
        WHERE known.link_id = of_link AND NOT known.is_ours AND known.incarnation = of_incarnation
            AND known.over @> of_number
    ) THEN
        RETURN 0;
    END IF;
    SELECT * INTO here FROM {schema}.link_streams_in AS one
    WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number;
    IF coalesce(here.received, 0) <> after OR coalesce(here.chain, its_begins) <> told_chain THEN
        RETURN 0; -- the chains will show it
    END IF;
    IF here.part_digest IS NULL THEN
        INSERT INTO {schema}.link_streams_in AS one (
            link_id, incarnation, number, destination, key, begins, received, chain, part_id, part_header, part_digest,
            part_size
        ) VALUES (of_link, of_incarnation, of_number, name, key, its_begins, 0, its_begins, its_id, header, its_digest, its_size)
        ON CONFLICT (link_id, incarnation, number) DO UPDATE SET
            part_id = excluded.part_id, part_header = excluded.part_header, part_digest = excluded.part_digest,
            part_size = excluded.part_size;
    ELSIF (
        here.part_id, here.part_header, here.part_digest, here.part_size
    ) <> (its_id, header, its_digest, its_size) THEN
        RETURN -1;
    END IF;
    there := (
        SELECT count(*) FROM {schema}.link_fragments AS one
        WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number
    );
    IF part_from / fragment_bytes <= there THEN
        INSERT INTO {schema}.link_fragments (link_id, incarnation, number, fragment, body)
        SELECT of_link, of_incarnation, of_number, nth, substring(
            frame, (at + id_length + header_length + nth * fragment_bytes - part_from + 1)::integer,
            least(fragment_bytes, part_from + part_length - nth * fragment_bytes)::integer
        )
        FROM generate_series(there, (part_from + part_length - 1) / fragment_bytes) AS nth;
        there := greatest(there, (part_from + part_length - 1) / fragment_bytes + 1);
    END IF;
    IF there * fragment_bytes >= its_size AND its_digest <> (
        SELECT sha256(string_agg(piece.body, ''::bytea ORDER BY piece.fragment))
        FROM (
            SELECT -1 AS fragment, int4send(header_length::integer) || header AS body
            UNION ALL
            SELECT one.fragment, one.body FROM {schema}.link_fragments AS one
            WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number
        ) AS piece
    ) THEN
        RETURN -1;
    END IF;
    RETURN there;
END
$function$;
