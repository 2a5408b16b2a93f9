"""Which frames the forwarder loses: counts RoCE frames by invocation and applies the rules that tests set."""

import collections
import random
import time

_HISTORY = 4096


class RuleError(Exception):
    """A request that makes no sense; the message says why."""


class Rules:
    """Sees every RoCE frame in the order of its arrival and decides about it.

    The counter of an invocation starts with 1 at the first frame that carries its control packet and runs
    over all links and both directions, lost frames included, until the control packet of a later one is seen.
    """

    def __init__(self):
        self._handlers = {"drop": self._drop, "drop_each": self._drop_each, "random_loss_ppm": self._random,
                          "count": self._count, "log": self._log, "trace": self._trace, "clear": self._clear}
        self._clear(None)

    def _clear(self, _request):
        self._nth = {}             # invocation -> set of frame numbers to lose
        self._each_from = None     # the first invocation of drop_each
        self._ppm, self._random_source = 0, random.Random(0)
        self._current = None
        self._seen = collections.Counter()
        self._dropped = []
        self._history = collections.deque(maxlen=_HISTORY)
        return {}

    def lose(self, link, direction, frame):
        """True if this RoCE frame is to be lost. direction is like "h0>leaf1"."""
        if frame.invocation is not None and (self._current is None or frame.invocation > self._current):
            self._current = frame.invocation
        self._seen[self._current] += 1
        number = self._seen[self._current]
        lost = self._is_lost(number)
        entry = {"time": time.monotonic(), "link": link, "direction": direction, "opcode": frame.name,
                 "psn": frame.psn, "qpn": frame.qpn, "invocation": self._current, "number": number,
                 "lost": lost}
        self._history.append(entry)
        if lost:
            self._dropped.append(entry)
        return lost

    def _is_lost(self, number):
        if self._current is not None:
            if number in self._nth.get(self._current, ()):
                return True
            if self._each_from is not None and number == self._current - self._each_from + 1:
                return True
        return self._ppm > 0 and self._random_source.randrange(1000000) < self._ppm

    # --- requests

    def handle(self, request):
        """Answers one request, a dict with one of the commands as a key; raises RuleError."""
        for command, handler in self._handlers.items():
            if command in request:
                try:
                    return handler(request)
                except (KeyError, TypeError, ValueError) as error:
                    raise RuleError(f"bad {command}: {error!r}") from error
        raise RuleError(f"no command in {request}; there are {', '.join(self._handlers)}")

    def _drop(self, request):
        """{"drop": {"invocation": K, "nth": [N, ...]}}"""
        rule = request["drop"]
        self._nth.setdefault(int(rule["invocation"]), set()).update(int(n) for n in rule["nth"])
        return {}

    def _drop_each(self, request):
        """{"drop_each": K}: of invocation K + i the frame number i + 1."""
        self._each_from = None if request["drop_each"] is None else int(request["drop_each"])
        return {}

    def _random(self, request):
        """{"random_loss_ppm": P, "seed": S}"""
        self._ppm = int(request["random_loss_ppm"])
        self._random_source = random.Random(int(request.get("seed", 0)))
        return {}

    def _count(self, _request):
        seen = {str(k): n for k, n in self._seen.items() if k is not None}
        return {"invocations": seen, "frames": sum(self._seen.values()), "dropped": len(self._dropped)}

    def _log(self, _request):
        return {"dropped": self._dropped}

    def _trace(self, request):
        """{"trace": K}: the frames of invocation K that are remembered (the last few thousand of all)."""
        wanted = int(request["trace"])
        return {"frames": [entry for entry in self._history if entry["invocation"] == wanted]}
