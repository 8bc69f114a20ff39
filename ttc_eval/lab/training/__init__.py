"""Training of the lab model and of its process verifier from a seed, in PyTorch (extra `train`). Nothing else needs PyTorch."""
