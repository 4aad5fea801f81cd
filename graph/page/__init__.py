"""The page of `app.py`: a file for each tab, and beside it the pure functions that make what it shows."""
