"""What a process knows of a box: its connections and pools, its identity, free room, where queues begin."""
