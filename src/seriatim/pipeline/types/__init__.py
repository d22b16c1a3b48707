"""Messages and their types: their properties, and the faults of a message."""
