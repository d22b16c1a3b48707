"""What handlers fail at, and leases."""
