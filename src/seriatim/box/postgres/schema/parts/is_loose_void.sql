-- Whether an entry is a void of a queue without order, of its group and its meaning. Nothing there waits for its number,
-- so it is set aside when it comes.
({0} = '' AND ({1})[1] & {number.VOID} <> 0) IS TRUE
