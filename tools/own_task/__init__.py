"""A person's own data: files are read, looked at, split, and become a benchmark like any other."""
