"""The ordering policies on arrays: a module for each policy, and one for each rule that several share."""
