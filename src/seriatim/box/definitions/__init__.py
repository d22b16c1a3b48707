"""What is defined in a box: values, changes, routing by them."""
