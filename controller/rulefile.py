"""The rule file while the sidecar runs: an edit takes effect at once, and whole, or not at all."""

from __future__ import annotations

import logging
from pathlib import Path

from .rules import Rules, RulesError, load_rules

log = logging.getLogger("wactl")


class RuleFile:
    """The rules of ``path`` as last read without a mistake. Raises `RulesError` at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self.rules: Rules = load_rules(path)
        self.problem = ""
        """Why the file as it is now is not in use; empty if it is."""

    def look(self) -> bool:
        """See whether the file was edited; True if there are other rules now."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            rules = load_rules(self._path)
        except RulesError as error:
            self.problem = str(error.mistakes[0])
            log.warning("the rules stay as they were: %s", self.problem)
            return False
        self.problem = ""
        changed = rules != self.rules
        self.rules = rules
        if changed:
            log.info("%s was edited and takes effect", self._path)
        return changed


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes with every edit of a file; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
