"""unshare -m silent_resolver.py COMMAND...: runs it where whoever is asked for names never answers, for minutes."""

import socket
import subprocess
import sys
import tempfile

CONF = b"nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, tempfile.NamedTemporaryFile() as conf:
    silent.bind(("127.0.0.1", 53))
    conf.write(CONF)
    conf.flush()
    subprocess.run(["mount", "--bind", conf.name, "/etc/resolv.conf"], check=True)
    sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
