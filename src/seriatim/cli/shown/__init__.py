"""How commands show what they found: tables, lines, bars, and plain text."""
