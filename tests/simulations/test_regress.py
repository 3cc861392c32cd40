"""Regressions: golden results hold, and whatever does not is told by cell and amount."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from wactl.simulations.golden import GoldenError, Results, load_golden, save_golden
from wactl.simulations.regress import SpecError, load_spec
from wactl.simulations.workload import generate, trace_of

WACTL = Path(sys.executable).parent / "wactl"
GOLDEN = Path(__file__).parent.parent / "golden"
PROMPTS = ([1, 2], [3], [1, 2, 4], [5, 6], [3, 7], [1, 2, 4])


def regress(command: str, spec: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs ``wactl regress`` to its end."""
    line = [WACTL, "regress", command, spec, *options]
    return subprocess.run(line, capture_output=True, text=True, timeout=600)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What a command that could not go on said, after its name and on one line."""
    assert (done.returncode, done.stdout) == (1, ""), done
    said = done.stderr.splitlines()[-1]
    assert said.startswith("wactl: ")
    return said.removeprefix("wactl: ")


def write_trace(path: Path, prompts: tuple[list[int], ...]) -> None:
    """A Mooncake file of these prompts, a second apart."""
    with path.open("w") as file:
        for second, blocks in enumerate(prompts):
            fields = {"timestamp": 1000 * second, "input_length": 512, "output_length": 1}
            print(json.dumps({**fields, "hash_ids": blocks}), file=file)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A specification of four results over a small trace beside it."""
    write_trace(tmp_path / "chats.jsonl", PROMPTS)
    path = tmp_path / "spec.yaml"
    grid: dict[str, Any] = {"policies": ["lru", "belady"], "capacities": [3, "70%"]}
    path.write_text(yaml.safe_dump({"traces": ["chats.jsonl"], **grid}))
    return path


@pytest.fixture
def golden(spec: Path) -> Path:
    """Its golden results, recorded."""
    assert regress("record", spec).returncode == 0
    return spec.with_name("spec.golden.json")


def test_the_shipped_workload_gives_its_golden_results() -> None:
    """Every policy does to the generated traffic what it did."""
    done = regress("check", GOLDEN / "generated.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_shared_traces_give_their_golden_results(shared_trace: Callable[[str], Path]) -> None:
    """So do the policies that matter to the public traces."""
    spec = GOLDEN / "shared.yaml"
    for trace in yaml.safe_load(spec.read_text())["traces"]:
        shared_trace(Path(trace).name)
    done = regress("check", spec)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_was_recorded_holds(spec: Path, golden: Path) -> None:
    """A check after a recording passes with one line, and recording again changes nothing."""
    done = regress("check", spec)
    assert (done.returncode, done.stdout) == (0, f"all 4 results equal those in {golden}\n")
    assert json.loads(regress("check", spec, "--json").stdout) == []
    before = golden.read_bytes()
    done = regress("record", spec)
    assert done.stdout == f"recorded: 4 results in {golden}; differences from before: 0\n"
    assert golden.read_bytes() == before


def test_the_golden_file_has_a_result_a_line(golden: Path) -> None:
    """Sorted by trace, policy and capacity, with what tells the trace apart."""
    lines = [line.strip() for line in golden.read_text().splitlines()]
    at = lines.index('"hits": {')
    assert lines[1] == '"chats": {'
    assert [line.partition(":")[0] for line in lines[2:at]] == [
        '"sha256"',
        '"requests"',
        '"blocks"',
    ]
    keys = [line.partition(":")[0] for line in lines[at + 1 :] if ":" in line]
    assert keys == ['"belady"', '"3"', '"5"', '"lru"', '"3"', '"5"']


def test_a_changed_result_is_told_with_its_amount(spec: Path, golden: Path) -> None:
    """The check fails with trace, policy, capacity, both numbers and the difference."""
    content = json.loads(golden.read_text())
    hits = content["chats"]["hits"]["lru"]["5"]
    content["chats"]["hits"]["lru"]["5"] = hits - 1
    golden.write_text(json.dumps(content))
    done = regress("check", spec)
    assert done.returncode == 1
    points = 100 / sum(map(len, PROMPTS))
    assert done.stdout.splitlines() == [
        f"chats: lru at 5 blocks: golden {hits - 1} hits, now {hits} (+1, +{points:.3f} points)",
        f"differences: 1; if they are meant: wactl regress record {spec}",
    ]
    done = regress("check", spec, "--json")
    assert done.returncode == 1
    cell = {"trace": "chats", "policy": "lru", "capacity": 5}
    assert json.loads(done.stdout) == [{**cell, "golden": hits - 1, "now": hits}]
    # Recording says the same, and then it holds.
    first, last = regress("record", spec).stdout.splitlines()
    assert first.startswith("chats: lru at 5 blocks: golden ")
    assert last.endswith("; differences from before: 1")
    assert regress("check", spec).returncode == 0


def test_another_trace_of_the_same_name_is_told_by_its_checksum(spec: Path, golden: Path) -> None:
    """Its results are not compared."""
    old = load_golden(golden)["chats"]
    write_trace(spec.with_name("chats.jsonl"), (*PROMPTS, [8]))
    done = regress("check", spec)
    assert done.returncode == 1
    first, _ = done.stdout.splitlines()
    assert first.startswith(f"chats: another trace: golden {old.trace}; now sha256 ")
    assert first.endswith(f", 7 requests, {old.blocks + 1} blocks")


def test_results_without_a_counterpart_are_told(spec: Path, golden: Path) -> None:
    """Another grid: what is not asked for any more, and what is new."""
    hits = load_golden(golden)["chats"].hits
    spec.write_text(spec.read_text().replace("- belady", "- fifo"))
    done = regress("check", spec)
    assert done.returncode == 1
    asked = "in the golden results ({}), but not asked for any more"
    assert done.stdout.splitlines()[:2] == [
        f"chats: belady at {blocks} blocks: {asked.format(hits['belady'][blocks])}"
        for blocks in (3, 5)
    ]
    assert "chats: fifo at 3 blocks: new, not in the golden results" in done.stdout
    spec.write_text(spec.read_text().replace("chats", "talks"))
    spec.with_name("chats.jsonl").rename(spec.with_name("talks.jsonl"))
    gone, new, last = regress("check", spec).stdout.splitlines()
    assert gone.startswith("chats: in the golden results (sha256 ")
    assert new.startswith("talks: new, not in the golden results (sha256 ")
    assert last.startswith("differences: 2;")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("lru", "lruu", "policies.0: no policy 'lruu'; there are lru, "),
        ("70%", "70 %", "capacities.1: '70 %' is neither blocks (1000) nor a share of the "),
        ("- 3", "- 0", "capacities.0: '0' is neither "),
        ("- 3", "- true", "capacities.0: 'True' is neither "),
        ("capacities:", "capacity:", "capacities: Field required"),
        ("traces:", "limit: 0\ntraces:", "limit: Input should be greater than or equal to 1"),
        ("traces:", "colour: red\ntraces:", "colour: Extra inputs are not permitted"),
        ("chats.jsonl", "5", "traces.0: A trace is a path or {generate: demo, "),
        (
            "chats.jsonl",
            "{generate: demo, minutes: no}",
            "traces.0.generated.minutes: Input should be greater than or equal to 1",
        ),
        ("traces:", "traces: [", "not YAML: "),
    ],
)
def test_a_broken_specification_is_named(spec: Path, old: str, new: str, said: str) -> None:
    """The file, the key and what is the matter, in one sentence."""
    spec.write_text(spec.read_text().replace(old, new))
    with pytest.raises(SpecError) as raised:
        load_spec(spec)
    text = str(raised.value)
    assert text.startswith(f"{spec}: {said}")
    assert "\n" not in text


def test_two_traces_of_one_name_are_refused(spec: Path) -> None:
    """Their results could not be told apart."""
    spec.write_text(spec.read_text().replace("- chats.jsonl", "- chats.jsonl\n- ./chats.jsonl"))
    said = sentence(regress("record", spec))
    assert said == f"{spec}: traces: more than one is called chats; rename the files"


def test_missing_files_are_named(spec: Path) -> None:
    """The specification, its golden results, a trace."""
    missing = spec.with_name("missing.yaml")
    assert sentence(regress("check", missing)) == (
        f"{missing}: cannot be read: No such file or directory"
    )
    assert sentence(regress("check", spec)) == (
        f"{spec.with_name('spec.golden.json')}: cannot be read: No such file or directory; "
        "write it with `wactl regress record`"
    )
    trace = spec.with_name("chats.jsonl")
    trace.unlink()
    assert (
        sentence(regress("record", spec)) == f"{trace}: cannot be read: No such file or directory"
    )


def test_spoilt_golden_results_are_named_and_can_be_recorded_again(
    spec: Path, golden: Path
) -> None:
    """A check refuses a file with the marks of a merge; recording replaces it."""
    good = golden.read_text()
    golden.write_text("<<<<<<< HEAD\n" + good)
    assert sentence(regress("check", spec)).startswith(f"{golden}: holds no golden results: ")
    assert regress("record", spec).stdout == f"recorded: 4 results in {golden}\n"
    assert golden.read_text() == good


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up half-way leaves the former file, and nothing else."""
    path = tmp_path / "spec.golden.json"
    save_golden(path, {"chats": Results("00", 1, 2, {"lru": {3: 1}})})
    before = path.read_bytes()

    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(GoldenError, match=r"spec\.golden\.json: cannot be written: No space left"):
        save_golden(path, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_generated_trace_has_the_prompts() -> None:
    """Block by block the same as the prompts, from time 0, and another seed has another digest."""
    prompts = generate(5.0)
    trace = trace_of(prompts, "demo")
    assert trace.name == "demo"
    assert trace.requests == len(prompts)
    names: dict[int, int] = {}
    for request, prompt in enumerate(prompts):
        assert trace.times[request] == prompt.time - prompts[0].time
        for block, number in zip(prompt.blocks, trace.prompt(request).tolist(), strict=True):
            assert names.setdefault(block, number) == number
    assert len(set(names.values())) == len(names) == trace.distinct
    assert trace_of(prompts, "demo").digest == trace.digest
    assert trace_of(generate(5.0, seed=8), "demo").digest != trace.digest
