"""What a process remembers of a box: connections, pools, identity."""
