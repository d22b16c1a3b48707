"""Links: the bytes between two boxes, and the connections that carry them."""
