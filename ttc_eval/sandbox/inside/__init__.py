"""What runs inside the sandbox, with the standard library alone: the process of the candidate, and the process of its tests."""
