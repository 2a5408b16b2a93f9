"""epic-run --hosts, as epic-run starts it: python3 FOLDER/epic_run OPTION... -- PROGRAM ARGUMENT..."""

import os
import sys

sys.dont_write_bytecode = True
sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
# Where a descriptor is missing, what is opened next would take its number, and standard output's place.
while (_null := os.open(os.devnull, os.O_RDWR)) <= 2:
    pass
os.close(_null)

from epic_run.cli import main  # noqa: E402  pylint: disable=wrong-import-position

sys.exit(main(sys.argv[1:]))
