"""The operator's settings: one YAML file, every key optional, every mistake named."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..policies.errors import WactlError
from ..policies.parameters import Score
from .family import Family

CONFIG = Path(__file__).parent.parent / "config"
"""The folder of the defaults that ship with wactl."""


class Mode(Enum):
    """How far wactl goes."""

    OBSERVE = "observe"  # records only
    SHADOW = "shadow"  # records and fits, nothing pushed
    ENFORCE = "enforce"  # everything: the engine orders its blocks by what was learned


class SettingsError(WactlError):
    """The settings cannot be used; the text says where and why."""


class Settings(BaseModel):
    """See config/wactl.yaml, which holds every key with its default and what it means."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Mode = Mode.SHADOW
    rules: Path = CONFIG / "rules.yaml"
    refit_seconds: float = Field(30.0, ge=1.0, le=3600.0)
    half_life_seconds: float = Field(3600.0, ge=60.0, le=1e6)
    ttl_seconds: float = Field(60.0, ge=1.0, le=3600.0)
    borrowed_requests: float = Field(10.0, ge=0.0, le=1e6)
    categories: int = Field(64, ge=1, le=256)
    families: tuple[Family, ...] = Field((Family.LIFE_TABLE, Family.EXPONENTIAL), min_length=1)
    score: Score = Score.HAZARD
    horizon_seconds: float = Field(60.0, gt=0.0, le=1e6)
    engines: tuple[str, ...] = ()
    state_dir: Path | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(9464, ge=0, le=65535)


def load_settings(path: Path | None) -> Settings:
    """Settings of a file, the shipped defaults if None. Raises `SettingsError`."""
    path = path or CONFIG / "wactl.yaml"
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: needs keys and values, like `mode: shadow`")
    for key in ("rules", "state_dir"):
        if isinstance(content.get(key), str):
            content[key] = path.parent / content[key]
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(str(part) for part in wrong["loc"])
        known = ", ".join(Settings.model_fields)
        hint = f"; known keys: {known}" if wrong["type"] == "extra_forbidden" else ""
        raise SettingsError(f"{path}: {key}: {wrong['msg']}{hint}") from None
