"""Convert messages to rows and back, without decisions."""
