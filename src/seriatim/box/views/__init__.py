"""What operators see. Views change nothing and take no locks."""
