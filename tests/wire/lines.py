"""One direction of a link: carries out the fates of its frames, holding some back. No sockets, no clock."""

import heapq
import itertools

import frames


class Line:
    """The frames under way in one direction. Times are seconds of one clock that the caller reads."""

    def __init__(self, cut=frames.cut):
        self._cut = cut      # of what push() is given: something may be behind the frame
        self._number = itertools.count()
        self._delayed = []   # heap of (due, number, frame)
        self._passed = []    # reordered frames: [due, number, frame, frames that may still pass]

    def push(self, now, raw, fate):
        """Takes a frame in (fate None: nothing happens to it); returns the frames to send now, in order."""
        if not fate:
            return self._pass_on([raw]) if self._passed else (raw,)
        if fate.drop:
            return ()
        if fate.bit is not None:
            raw = frames.corrupt(raw, fate.bit)
        if fate.keep is not None:
            raw = self._cut(raw, fate.keep)
        sent = [raw] * fate.copies
        held = None
        if fate.delay_s > 0:
            heapq.heappush(self._delayed, (now + fate.delay_s, next(self._number), raw))
        elif fate.depth > 0:
            held = [now + fate.hold_s, next(self._number), raw, fate.depth]
        else:
            sent.append(raw)
        sent = self._pass_on(sent)
        if held:
            self._passed.append(held)  # only now: what is sent with it is not later than it
        return sent

    def _pass_on(self, sent):
        """The frames sent and, behind each, those that it was the last to pass."""
        out = []
        for raw in sent:
            out.append(raw)
            for held in self._passed:
                held[3] -= 1
            out += [held[2] for held in self._passed if held[3] == 0]
            self._passed = [held for held in self._passed if held[3] > 0]
        return out

    def due(self, now):
        """The frames whose time has come, in order."""
        ready = [held for held in self._passed if held[0] <= now]
        if ready:
            self._passed = [held for held in self._passed if held[0] > now]
        while self._delayed and self._delayed[0][0] <= now:
            ready.append(heapq.heappop(self._delayed))
        ready.sort(key=lambda entry: (entry[0], entry[1]))
        return [entry[2] for entry in ready]

    def deadline(self):
        """When due() has something next, or None while nothing is held back."""
        times = [held[0] for held in self._passed]
        if self._delayed:
            times.append(self._delayed[0][0])
        return min(times) if times else None
