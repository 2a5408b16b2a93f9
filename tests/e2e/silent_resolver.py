"""unshare -m silent_resolver.py COMMAND...: runs it where whoever is asked for names never answers, for minutes."""

import pathlib
import socket
import subprocess
import sys
import tempfile

FILES = {"/etc/resolv.conf": b"nameserver 127.0.0.1\noptions timeout:30 attempts:5\n", "/etc/nsswitch.conf": b"hosts: files dns\n"}

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, tempfile.TemporaryDirectory() as folder:
    silent.bind(("127.0.0.1", 53))
    for number, (file, text) in enumerate(FILES.items()):
        of_ours = pathlib.Path(folder, str(number))
        of_ours.write_bytes(text)
        pathlib.Path(file).touch()
        subprocess.run(["mount", "--bind", of_ours, file], check=True)
    sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
