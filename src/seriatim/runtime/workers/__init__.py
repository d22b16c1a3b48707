"""Workers: the threads of one process that take turns on queues, and call the user's handlers."""
