"""Links: what two boxes say to each other as bytes, and over which connections."""
