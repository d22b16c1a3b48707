"""What a group is: its policy, its state, and its arriving messages."""
