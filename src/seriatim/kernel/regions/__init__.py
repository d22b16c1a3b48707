"""What two regions agree on."""
