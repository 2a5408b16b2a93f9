"""A switch that states other abilities than its engine has, by tests/engines/other_engine between it and its agent."""

import json
import pathlib
import time

import harness

OTHER_ENGINE = harness.BUILD / "tests" / "engines" / "other_engine"


def state_of(bed, switch):
    return next(state for state in bed.manager("switches")["switches"] if state["name"] == switch)


def wait_for(bed, switch, is_so):
    """Until the manager knows of a switch that is up."""
    deadline = time.monotonic() + 20
    while True:
        state = state_of(bed, switch)
        if state["state"] == "up" and is_so(state):
            return
        assert time.monotonic() < deadline, state
        time.sleep(0.1)


class Altered:
    """`engine`: what becomes of the engine's command line, if it is to be another one."""

    def __init__(self, bed, switch, engine=None):
        self.bed, self.switch = bed, switch
        self.states = pathlib.Path(f"/run/epic/{bed.name}/{switch}.states")
        self.agent = bed.kill(f"{switch}.agent")
        if engine is not None:
            bed.revive(f"{switch}.engine", engine(bed.kill(f"{switch}.engine")))
        at = self.agent.index("--engine") + 1
        control = self.agent[at]
        bed.revive(f"{switch}.other", [str(OTHER_ENGINE), control, control + ".other", str(self.states)])
        bed.revive(f"{switch}.agent", [*self.agent[:at], control + ".other", *self.agent[at + 1:]])

    def alter(self, version, **changes):
        """It states this from now on; the version, another one each time, tells that the manager knows."""
        new = self.states.with_suffix(".new")
        new.write_text(json.dumps({"version": version, **changes}), encoding="utf-8")
        new.rename(self.states)
        wait_for(self.bed, self.switch, lambda state: state["engine"]["version"] == version)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """The agent speaks with the engine itself again."""
        self.bed.kill(f"{self.switch}.agent")
        self.bed.kill(f"{self.switch}.other")
        self.states.unlink(missing_ok=True)
        self.bed.revive(f"{self.switch}.agent", self.agent)
        self.bed.wait_for_switch(self.switch)
