"""Bodies: read, checked against schemas, and searched for properties."""
