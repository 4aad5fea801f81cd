"""`python app.py` whose runs have quick engines: the same front door, page and files; see fake_run.py."""

import sys

from app import main
from tests.fake_run import workshop

if __name__ == "__main__":
    sys.exit(main(module="tests.fake_run", equip=workshop))
