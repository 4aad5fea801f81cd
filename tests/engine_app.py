"""`python app.py` with the real engines, whose runs are small: the same front door and page; see engine_run.py."""

import sys

from app import main

if __name__ == "__main__":
    sys.exit(main(module="tests.engine_run"))
