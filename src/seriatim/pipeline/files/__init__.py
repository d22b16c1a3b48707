"""Files that people write, read into declarations or into the list of all their faults; and the JSON in which a box keeps declarations."""
