"""Hydra's way to the sweep runner: all cells of one `-m` run in one process and one event loop."""
