"""Where the test bed is."""

import os

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
