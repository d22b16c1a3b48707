-- Whether an entry of `of_group` is on the way to `of_gate`, and not there yet; the index is entries_on_way.
{0}.gate_id = of_gate AND {0}.gate_id <> {0}.queue_id AND coalesce({0}.origin_group, {0}.group_key) = of_group
