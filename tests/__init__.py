"""Flat tests, one file per source file, and the whole-run tests."""
