"""What may happen to a frame (Fate), and who decides it: rules that name frames, and chance by seed."""

import random

ACTIONS = ("drop", "duplicate", "reorder", "delay", "corrupt", "cut")
HOLD_S = 0.005  # a reordered frame that nothing passes goes on after this time
_CRITERIA = ("opcode", "qpn", "psn", "invocation", "link", "direction", "super_frame")
_MILLION = 1000000


class Fate:
    """What happens to one frame. Copies leave at once, also those of a frame that is held back."""

    __slots__ = ("drop", "copies", "depth", "hold_s", "delay_s", "bit", "keep", "words")

    def __init__(self):
        self.drop = False      # lost
        self.copies = 0        # further frames like it
        self.depth = 0         # held back until so many later frames have passed, or hold_s
        self.hold_s = HOLD_S
        self.delay_s = 0.0     # held back for this time
        self.bit = None        # flipped, as corrupt() of frames.py counts
        self.keep = None       # of a frame that is cut: so many bytes
        self.words = []        # for the log

    def __bool__(self):
        return bool(self.words)

    def take(self, action, options, draw, bits):
        """Adds an action. What its options leave open is drawn from the random source `draw`."""
        if action == "drop":
            self.drop, word = True, "drop"
        elif action == "duplicate":
            copies = options.get("copies", 1)
            self.copies, word = self.copies + copies, f"duplicate {copies}"
        elif action == "reorder":
            self.depth = options["depth"] if options.get("exact") else draw.randint(1, options["depth"])
            self.hold_s, word = options["hold_ms"] / 1000, f"reorder {self.depth}"
        elif action == "delay":
            self.delay_s, word = options["delay_ms"] / 1000, f"delay {options['delay_ms']} ms"
        elif action == "cut":
            keep = options.get("keep")
            self.keep = draw.randrange(bits // 8) if keep is None else keep
            word = f"cut to {self.keep}"
        else:
            bit = options.get("bit")
            self.bit = draw.randrange(bits) if bit is None else bit % bits
            word = f"corrupt bit {self.bit}"
        self.words.append(word)


def _numbers(value):
    """A number or a list of them as a set of positive integers."""
    numbers = {int(n) for n in (value if isinstance(value, (list, tuple)) else [value])}
    if not numbers or min(numbers) < 1:
        raise ValueError(f"nth counts from 1, not {value}")
    return numbers


def _options(action, request):
    """The options of an action, checked, with defaults."""
    options = {}
    if action == "duplicate":
        options["copies"] = int(request.pop("copies", 1))
    elif action == "reorder":
        options["depth"] = int(request.pop("depth", 1))
        options["hold_ms"] = float(request.pop("hold_ms", HOLD_S * 1000))
    elif action == "delay":
        options["delay_ms"] = float(request.pop("delay_ms"))
    elif action == "cut":
        options["keep"] = int(request.pop("keep", 0)) or None
    elif action == "corrupt":
        bit = request.pop("bit", None)
        options["bit"] = None if bit is None else int(bit)
    for name, value in options.items():
        if name not in ("bit", "keep") and value <= 0:
            raise ValueError(f"{name} is above 0, not {value}")
    return options


class Rule:
    """One action for the frames that match all criteria, or only for the nth or every so-manieth of them."""

    def __init__(self, number, request):
        request = dict(request)
        self.number, self.seen, self.hits = number, 0, 0
        self.action = request.pop("action")
        if self.action not in ACTIONS:
            raise ValueError(f"there are the actions {', '.join(ACTIONS)}, not {self.action}")
        self.options = _options(self.action, request)
        self.options["exact"] = True  # a rule says the depth; chance draws it up to the depth
        nth, every = request.pop("nth", None), request.pop("every", None)
        self._nth = None if nth is None else _numbers(nth)
        self._every = None if every is None else min(_numbers(every))
        self._draw = random.Random(int(request.pop("seed", 0)))
        unknown = set(request) - set(_CRITERIA)
        if unknown:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}; "
                             f"criteria are {', '.join(_CRITERIA)}")
        self.criteria = {name: value for name, value in request.items() if value is not None}

    def apply(self, facts, bits, fate):
        """Adds the action to the fate of a frame with these facts, if it is one of the rule's."""
        for name, value in self.criteria.items():
            if facts[name] != value:
                return
        self.seen += 1
        if self._nth is not None and self.seen not in self._nth:
            return
        if self._every is not None and self.seen % self._every != 0:
            return
        self.hits += 1
        fate.take(self.action, self.options, self._draw, bits)
        fate.words[-1] += f" (rule {self.number})"

    def describe(self):
        counts = {"seen": self.seen, "hits": self.hits}
        return {"rule": self.number, "action": self.action, **self.criteria, **counts}


class Chance:
    """Faults at random, by rates in parts per million.

    Each direction of each link has a random source of its own, made from the seed and the direction's name:
    what happens to the n-th RoCE frame of a direction does not depend on how the links' frames interleave.
    """

    def __init__(self, request):
        request = dict(request)
        self._seed = int(request.pop("seed", 0))
        self._options = {"duplicate": {"copies": 1}, "corrupt": {}, "drop": {}, "cut": {},
                         "reorder": {"depth": int(request.pop("depth", 16)),
                                     "hold_ms": float(request.pop("hold_ms", HOLD_S * 1000))},
                         "delay": {"delay_ms": float(request.pop("delay_ms", 1))}}
        self._rates = []
        for action in ACTIONS:
            ppm = int(request.pop(f"{action}_ppm", 0))
            if not 0 <= ppm <= _MILLION:
                raise ValueError(f"{action}_ppm is 0 to {_MILLION}, not {ppm}")
            if ppm:
                self._rates.append((action, ppm))
        if request:
            raise ValueError(f"unknown: {', '.join(sorted(request))}")
        if self._options["reorder"]["depth"] < 1:
            raise ValueError("depth is at least 1")
        self._sources = {}

    def apply(self, facts, bits, fate):
        """Adds what chance has for the next frame of a direction."""
        if not self._rates:
            return
        key = f"{self._seed}/{facts['link']}/{facts['direction']}"
        draw = self._sources.get(key)
        if draw is None:
            draw = self._sources[key] = random.Random(key)
        for action, ppm in self._rates:
            if draw.randrange(_MILLION) < ppm:
                fate.take(action, self._options[action], draw, bits)
