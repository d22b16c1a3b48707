"""The state of stateful operators in a checkpoint, and the packets that bring rows to it."""
