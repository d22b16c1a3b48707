"""Two regions: sessions that are sent to the boxes of both, and worked on once."""
