"""Makes the test bed's modules importable."""

import os
import sys

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(REPO, "scripts", "lib"))
