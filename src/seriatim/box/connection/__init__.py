"""The state that a process keeps of a box: connections and pools, its identity, free room, the beginnings of queues."""
