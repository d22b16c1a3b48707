"""What stateful operators keep in a checkpoint, and the packets in which rows get there."""
