"""The parts of a box that a worker process needs beyond a session."""
