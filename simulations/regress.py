"""What a regression replays: a YAML file of traces, policies and capacities."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)

from ..policies.errors import WactlError
from .catalogue import find

CAPACITY = re.compile(r"[1-9][0-9]{0,8}|[0-9]{1,3}(\.[0-9]+)?%")


class SpecError(WactlError):
    """The specification cannot be used; the text says where and why."""


def _capacity(value: object) -> str:
    if not CAPACITY.fullmatch(text := str(value)):
        raise ValueError(f"{text!r} is neither blocks (1000) nor a share of the trace's (5%)")
    return text


def _policy(name: str) -> str:
    try:
        return find(name).name
    except WactlError as error:
        raise ValueError(str(error)) from None


def _kind(source: object) -> str | None:
    """Which of the two forms of a trace it is; None, which is an error, if neither."""
    if isinstance(source, str):
        return "path"
    return "generated" if isinstance(source, dict) else None


class Generated(BaseModel):
    """A trace of the workload that ships with wactl."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    generate: Literal["demo"]
    minutes: float = Field(30.0, ge=1.0, le=1440.0)
    seed: int = 7

    @property
    def name(self) -> str:
        """What the trace is called among the results."""
        return f"{self.generate}-{self.minutes:g}min-seed{self.seed}"


Source = Annotated[
    Annotated[str, Tag("path")] | Annotated[Generated, Tag("generated")],
    Discriminator(
        _kind,
        custom_error_type="source",
        custom_error_message="A trace is a path or {generate: demo, minutes: 30, seed: 7}",
    ),
]
"""Where a trace is to be had: the path of its file, or how to generate it."""


class Spec(BaseModel):
    """The grid of a regression."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    traces: list[Source] = Field(min_length=1)
    """Paths are relative to the file of the specification."""
    policies: list[Annotated[str, AfterValidator(_policy)]] = Field(min_length=1)
    capacities: list[Annotated[str, BeforeValidator(_capacity)]] = Field(min_length=1)
    """Blocks, or shares of a trace's distinct blocks."""
    limit: int | None = Field(None, ge=1)
    """Only the first requests of each trace."""


def load_spec(path: Path) -> Spec:
    """The specification of a file. Raises `SpecError`."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise SpecError(f"{path}: needs the keys traces, policies and capacities")
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(str(part) for part in wrong["loc"])
        raise SpecError(f"{path}: {key}: {wrong['msg'].removeprefix('Value error, ')}") from None
