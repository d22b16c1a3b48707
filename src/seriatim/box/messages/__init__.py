"""Messages as rows; no decisions."""
