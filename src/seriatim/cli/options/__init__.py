"""Options, arguments and words that several commands share."""
