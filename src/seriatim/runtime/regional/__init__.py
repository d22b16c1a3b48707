"""Workers of a region: they take the copies in its box, and handle the messages that the journal gives them."""
