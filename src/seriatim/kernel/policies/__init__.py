"""The ordering policies on arrays: a module a policy, and one for each rule that several share."""
