"""The page that `app.py` serves: one file per tab, and the shell around them."""
