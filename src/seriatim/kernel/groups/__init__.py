"""What a group is: its policy, its state, and the messages that arrive for it."""
