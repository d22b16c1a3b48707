"""Every rule about order, once. Pure and columnar: NumPy arrays in, NumPy arrays out; `now` is an argument."""
