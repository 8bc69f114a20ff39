"""Data sets: rows through Hugging Face `datasets`, turned into problems by one config."""

from ttc_eval.datasets.load import Dataset, load

__all__ = ["Dataset", "load"]
