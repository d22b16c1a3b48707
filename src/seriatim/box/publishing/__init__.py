"""Publishing: messages are taken in and routed into queues."""
