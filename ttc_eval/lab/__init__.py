"""The lab model: its task, its network and weights, and how it generates. Inference needs NumPy alone; `train` needs PyTorch."""
