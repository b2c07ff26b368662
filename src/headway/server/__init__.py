"""The API of `headway serve`: HTTP on a Unix socket in the folder of its run."""
