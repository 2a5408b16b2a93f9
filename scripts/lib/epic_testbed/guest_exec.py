"""guest_exec.py JSON: runs a command in a guest, as `testbed exec` does, and loads nothing that it does not need.

{"namespace": of the test bed's management, "address": the guest's there, "argv": [...], "env": {...}, "timeout_s": N or null,
 "stdin": whether the command gets the standard input}
"""

import json
import os
import sys

sys.dont_write_bytecode = True
sys.path[0] = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))

# pylint: disable=wrong-import-position
from epic_testbed import guest, net  # noqa: E402


def main():
    asked = json.loads(sys.argv[1])
    try:
        with guest.connect(asked["namespace"], asked["address"]) as connection:
            return guest.execute(connection, asked["argv"], asked["env"], os.getcwd(), asked["timeout_s"], asked["stdin"])
    except (guest.GuestError, net.NetError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
