"""Files that people write, read into declarations or into the list of all that is wrong with them; and the JSON in which a box keeps declarations."""
