"""The definitions of a box: their values, how they change, and routing by them."""
