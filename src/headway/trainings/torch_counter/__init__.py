"""A training in PyTorch that counts its updates; see `__main__`."""
