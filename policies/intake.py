"""Which parameters are in force in the engine, and why.

Pushes are considered one after another: a broken or older one is refused with a reason and
changes nothing; a good one is in force until its time to live has passed. Whoever pushed it
may have died since, so unless it is sent again the engine is back to plain LRU by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from .messages import WIRE, Ack, WireError, decode_push
from .parameters import ParameterSet
from .score import Laws, compile_laws
from .table import CompiledTable, compile_table


@dataclass(frozen=True, eq=False)
class Orders:
    """A parameter set and its compiled form."""

    parameters: ParameterSet
    laws: Laws
    table: CompiledTable


def orders_of(parameters: ParameterSet) -> Orders:
    """Compile a valid parameter set."""
    return Orders(parameters, compile_laws(parameters), compile_table(parameters.table))


class Intake:
    """The newest good parameters and how long they hold.

    One thread calls `consider`; others may call `in_force` at any time, since all it reads is
    one reference.
    """

    def __init__(self) -> None:
        self.accepted = 0
        self.rejected = 0
        self._current: tuple[Orders, float] | None = None

    @property
    def newest(self) -> Orders | None:
        """The last good parameters, expired or not."""
        return self._current[0] if self._current else None

    def in_force(self, now: float) -> Orders | None:
        """What to order by at ``now`` (seconds), None for plain LRU."""
        current = self._current
        return current[0] if current and now < current[1] else None

    def reason(self, now: float) -> str:
        """Why `in_force` says what it says."""
        current = self._current
        if current is None:
            return "no parameters received yet"
        parameters = current[0].parameters
        if now >= current[1]:
            silent = now - current[1] + parameters.ttl
            return f"version {parameters.version} expired, nothing heard for {silent:.0f} s"
        if parameters.trust == 0.0:
            return f"version {parameters.version} has trust 0"
        return f"version {parameters.version} in force"

    def consider(self, raw: bytes, now: float) -> Ack:
        """Take or refuse a push; never raises for anything ``raw`` may hold."""
        try:
            parameters = decode_push(raw)
            current = self.newest
            if current is None or parameters.version > current.parameters.version:
                orders = orders_of(parameters)
            elif parameters == current.parameters:
                orders = current  # the same again: a sign of life
            else:
                raise WireError(
                    f"version {parameters.version} is not newer than "
                    f"{current.parameters.version}, which is known already"
                )
        except WireError as error:
            self.rejected += 1
            return Ack(WIRE, self.version, False, str(error))
        self._current = (orders, now + parameters.ttl)
        self.accepted += 1
        return Ack(WIRE, parameters.version, True, "")

    @property
    def version(self) -> int:
        """Version of the newest good parameters, 0 if there were none."""
        return self.newest.parameters.version if self.newest else 0
