"""Publishing: route messages and store them in queues."""
