"""Keys: made for one user, read only while nobody else could have, and never told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zmq
from wactl.policies.keys import ENGINE, KEYS, SIDECAR, Keys, KeysError, load_keys, write_keys


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fresh keys, the one that the environment names."""
    path = tmp_path / "a" / "keys"
    write_keys(path)
    monkeypatch.setenv(KEYS, str(path))
    return path


def test_each_side_gets_its_pair_and_the_others_public_key(folder: Path) -> None:
    """Secrets are for the user alone, and what one side holds fits what the other does."""
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes.pop("engine.secret") == modes.pop("sidecar.secret") == 0o600
    assert set(modes) == {"engine.public", "sidecar.public"}
    assert folder.stat().st_mode & 0o777 == 0o700
    engine, sidecar = load_keys(ENGINE, SIDECAR), load_keys(SIDECAR, ENGINE)
    assert (engine.peer, sidecar.peer) == (sidecar.public, engine.public)
    for keys in (engine, sidecar):
        assert zmq.curve_public(keys.secret) == keys.public
    assert len({engine.secret, sidecar.secret, engine.public, sidecar.public}) == 4


def test_a_side_needs_no_file_but_its_two(folder: Path) -> None:
    """The engine's machine need not hold the sidecar's secret, nor the other way round."""
    for name in ("sidecar.secret", "engine.public"):
        (folder / name).unlink()
    assert load_keys(ENGINE, SIDECAR).secret
    with pytest.raises(KeysError, match=r"cannot read the key .*sidecar\.secret: No such file"):
        load_keys(SIDECAR, ENGINE)


def test_keys_are_not_overwritten(folder: Path) -> None:
    """With one file left in the folder none is written, and the one is as it was."""
    before = (folder / "sidecar.public").read_bytes()
    for name in ("engine.secret", "engine.public", "sidecar.secret"):
        (folder / name).unlink()
    with pytest.raises(KeysError, match=r"sidecar\.public exists already; remove it first"):
        write_keys(folder)
    assert [path.name for path in folder.iterdir()] == ["sidecar.public"]
    assert (folder / "sidecar.public").read_bytes() == before


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the way is one sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(KeysError, match=r"cannot write keys to .*file: File exists"):
        write_keys(tmp_path / "file")


@pytest.mark.parametrize(
    ("name", "mode", "advice"),
    [(ENGINE + ".secret", mode, "600") for mode in (0o640, 0o604, 0o620, 0o601, 0o666)]
    + [(SIDECAR + ".public", mode, "644") for mode in (0o664, 0o646, 0o666)],
)
def test_keys_open_to_others_are_refused(folder: Path, name: str, mode: int, advice: str) -> None:
    """A secret others may read, and any key they may write; the text says how to close it."""
    (folder / name).chmod(mode)
    with pytest.raises(KeysError, match=f"open to other users; run: chmod {advice} '.*{name}'"):
        load_keys(ENGINE, SIDECAR)
    (folder / name).chmod(int(advice, 8))
    assert load_keys(ENGINE, SIDECAR)


@pytest.mark.parametrize("name", ["engine.secret", "sidecar.public"])
def test_keys_of_another_user_are_refused(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can put a key there decides who gets in, so it has to be this user, or root."""
    if os.getuid() == 0:
        os.chown(folder / name, 4242, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(KeysError, match="belongs to another user"):
        load_keys(ENGINE, SIDECAR)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"short", b"~" * 40, b"\xff" * 40, b"x" * 41, b"x" * 10**6]
)
def test_what_is_no_key_is_refused_and_not_quoted(folder: Path, content: bytes) -> None:
    """Empty, cut, of other characters or too long."""
    (folder / "engine.secret").write_bytes(content)
    with pytest.raises(KeysError, match=r"holds no key; make new ones") as error:
        load_keys(ENGINE, SIDECAR)
    assert not content.strip() or content.strip().decode("latin1") not in str(error.value)


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_folder_it_says_how_to_make_keys(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """An address without keys leads to the command that makes them."""
    monkeypatch.delenv(KEYS, raising=False)
    if value is not None:
        monkeypatch.setenv(KEYS, value)
    with pytest.raises(KeysError, match=r"wactl keys DIR.*set WACTL_KEYS=DIR"):
        load_keys(ENGINE, SIDECAR)


def test_a_secret_does_not_show() -> None:
    """Printed, logged or in a traceback, keys show their public part alone."""
    keys = Keys(b"s" * 40, b"p" * 40, b"q" * 40)
    assert "sss" not in f"{keys} {keys!r}" and "ppp" in repr(keys)
