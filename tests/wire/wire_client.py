"""The tests' side of the fault box's control socket."""

import json
import socket


class WireError(Exception):
    """The forwarder refused a request, or is not there."""


class Wire:
    """A connection to the forwarder of a test bed that was brought up with --wire."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(10)
        try:
            self._socket.connect(path)
        except OSError as error:
            raise WireError(f"no forwarder at {path}: {error}; was it brought up with --wire?") from error
        self._file = self._socket.makefile("r", encoding="utf-8")

    def close(self):
        self._file.close()
        self._socket.close()

    def request(self, **request):
        """Sends one command of tests/wire/rules.py and returns the answer."""
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(self._file.readline() or '{"error": "the forwarder went away"}')
        if "error" in answer:
            raise WireError(answer["error"])
        return answer

    def clear(self):
        self.request(clear=True)

    def drop(self, invocation, *nth):
        self.request(drop={"invocation": invocation, "nth": nth})

    def drop_each(self, first_invocation):
        self.request(drop_each=first_invocation)

    def random_loss(self, ppm, seed):
        self.request(random_loss_ppm=ppm, seed=seed)

    def random_faults(self, seed, **rates):
        """Faults at random, in place of what was asked at random before: drop_ppm, duplicate_ppm, reorder_ppm
        with depth and hold_ms, delay_ppm with delay_ms, corrupt_ppm, cut_ppm."""
        self.request(random={"seed": seed, **rates})

    def fault(self, action, **rule):
        """A rule: "drop", "duplicate", "reorder", "delay", "corrupt" or "cut" for the frames that match opcode,
        qpn, psn, invocation, link, direction and super_frame, or only for the nth or every so-manieth of them. Returns its
        number.

        The third ACK to QPN x: fault("drop", opcode="ACK", qpn=x, nth=3). Options: rules.py.
        """
        return self.request(fault={"action": action, **rule})["rule"]

    def rules(self):
        """The rules in the order of their numbers, with how many frames each has seen and hit."""
        return self.request(rules=True)["rules"]

    def faults(self):
        """The last frames that something happened to, in order, each with its "fate"."""
        return self.request(faults=True)["faults"]

    def count(self):
        """Frames by invocation and in all, and frames by what happened to them."""
        return self.request(count=True)

    def log(self):
        """All frames that were lost, in order."""
        return self.request(log=True)["dropped"]

    def trace(self, invocation):
        return self.request(trace=invocation)["frames"]
