"""What the fault box does to which frame: counts RoCE frames by invocation and applies what tests ask for."""

import collections
import time

import faults
import frames

_HISTORY = 4096
_LOG = 65536


class RuleError(Exception):
    """A request that makes no sense; the message says why."""


class Rules:
    """Sees every RoCE frame in the order of its arrival and decides about it.

    The counter of an invocation starts with 1 at the first frame that carries its control packet and runs
    over all links and both directions, lost frames included, until the control packet of a later one is seen.
    """

    def __init__(self, on_fault=None):
        self._on_fault = on_fault  # called with the entry of each frame that something happens to
        self._handlers = {"drop": self._drop, "drop_each": self._drop_each,
                          "random_loss_ppm": self._random_loss, "random": self._random, "fault": self._fault,
                          "rules": self._list, "faults": self._faults, "count": self._count, "log": self._log,
                          "trace": self._trace, "clear": self._clear}
        self._clear(None)

    def _clear(self, _request):
        self._nth = {}             # invocation -> set of frame numbers to lose
        self._each_from = None     # the first invocation of drop_each
        self._rules, self._chance = [], faults.Chance({})
        self._current = None
        self._seen = collections.Counter()
        self._done = collections.Counter()
        self._dropped = []
        self._faulted = collections.deque(maxlen=_LOG)
        self._history = collections.deque(maxlen=_HISTORY)
        return {}

    def fate(self, link, direction, frame):
        """What happens to this RoCE frame. direction is like "h0>leaf1"."""
        if frame.invocation is not None and (self._current is None or frame.invocation > self._current):
            self._current = frame.invocation
        self._seen[self._current] += 1
        entry = {"time": time.monotonic(), "link": link, "direction": direction, "opcode": frame.name,
                 "psn": frame.psn, "qpn": frame.qpn, "invocation": self._current,
                 "packets": frame.packets, "super_frame": frame.packets > 1,
                 "number": self._seen[self._current]}
        fate = faults.Fate()
        if self._is_numbered(entry["number"]):
            fate.take("drop", {}, None, frame.bits)
        for rule in self._rules:
            rule.apply(entry, frame.bits, fate)
        self._chance.apply(entry, frame.bits, fate)
        entry["lost"] = fate.drop
        self._history.append(entry)
        if fate:
            self._note(entry, fate)
        return fate

    def _note(self, entry, fate):
        entry["fate"] = ", ".join(fate.words)
        self._done.update({word.partition(" ")[0] for word in fate.words})
        self._faulted.append(entry)
        if fate.drop:
            self._dropped.append(entry)
        if self._on_fault:
            self._on_fault(entry)

    def _is_numbered(self, number):
        if self._current is None:
            return False
        if number in self._nth.get(self._current, ()):
            return True
        return self._each_from is not None and number == self._current - self._each_from + 1

    # --- requests

    def handle(self, request):
        """Answers one request, a dict with one of the commands as a key; raises RuleError."""
        for command, handler in self._handlers.items():
            if command in request:
                try:
                    return handler(request)
                except (AttributeError, KeyError, TypeError, ValueError) as error:
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

    def _random_loss(self, request):
        """{"random_loss_ppm": P, "seed": S}"""
        rate, seed = request["random_loss_ppm"], request.get("seed", 0)
        self._chance = faults.Chance({"drop_ppm": rate, "seed": seed})
        return {}

    def _fault(self, request):
        """{"fault": {"action": A, "nth": N or [N, ...], "every": N, "seed": S, and criteria and options}}

        Criteria: opcode (a name of frames.py), qpn (destination), psn, invocation, link, direction, super_frame
        (true or false; the others are those of its first packet); none means every RoCE frame. nth and every count the frames that match, from now on. Options: copies
        (duplicate), depth and hold_ms (reorder), delay_ms (delay), bit (corrupt) and keep (cut: the bytes
        that are left), both drawn by seed if absent.
        Answers with the rule's number.
        """
        rule = faults.Rule(len(self._rules) + 1, request["fault"])
        opcode = rule.criteria.get("opcode")
        if opcode is not None and opcode not in frames.NAMES and not opcode.startswith("0x"):
            raise ValueError(f"there are the opcodes {', '.join(sorted(frames.NAMES))}, not {opcode}")
        self._rules.append(rule)
        return {"rule": rule.number}

    def _random(self, request):
        """{"random": {"seed": S, "drop_ppm": P, "duplicate_ppm": P, "reorder_ppm": P, "depth": K,
        "hold_ms": T, "delay_ppm": P, "delay_ms": T, "corrupt_ppm": P}}, in place of earlier ones."""
        self._chance = faults.Chance(request["random"])
        return {}

    def _list(self, _request):
        """{"rules": true}: the rules of `fault` with how many frames they matched and hit."""
        return {"rules": [rule.describe() for rule in self._rules]}

    def _faults(self, _request):
        """{"faults": true}: the last frames that anything happened to, each with its fate."""
        return {"faults": list(self._faulted)}

    def _count(self, _request):
        seen = {str(k): n for k, n in self._seen.items() if k is not None}
        return {"invocations": seen, "frames": sum(self._seen.values()), "dropped": len(self._dropped),
                "faults": dict(self._done)}

    def _log(self, _request):
        return {"dropped": self._dropped}

    def _trace(self, request):
        """{"trace": K}: the frames of invocation K that are remembered (the last few thousand of all)."""
        wanted = int(request["trace"])
        return {"frames": [entry for entry in self._history if entry["invocation"] == wanted]}
