"""What operators see; nothing is changed or locked."""
