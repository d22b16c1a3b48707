-- Purpose: the message of the row `message` has no reference left.
NOT EXISTS ({refers(entries)}) AND NOT EXISTS ({refers(aside)}) AND NOT EXISTS ({refers(history)})
AND NOT EXISTS ({refers(unrouted)}) AND NOT EXISTS ({refers(to_route)}) AND NOT EXISTS ({refers(replies)})
AND NOT EXISTS ({refers(region_numbers)} AND other.beside)
