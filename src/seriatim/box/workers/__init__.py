"""What a worker process needs beyond a session."""
