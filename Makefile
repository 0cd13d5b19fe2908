# make demo, make test and make lint each set up everything they need in .venv, even on a new machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find core bindings src -type f -not -name '*.pyc')
CPP := $(wildcard core/*.hpp core/*/*.hpp bindings/*.hpp bindings/*.cpp benchmarks/*.cpp tests/core/*.cpp)

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick recipes test-oldest sanitize lint docs format bench bench-quick stub clean

help:  ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/installed  ## Suppress the raw boxes of a crowded scene and show a table and a page.
	mkdir -p build
	$(BIN)/hashnms demo --report build/demo.html

# Tests run in parallel, except those that measure time or memory: they run one at a time.
test: $(VENV)/installed $(VENV)/test-tools  ## Run all tests.
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not timing and not memory"
	$(BIN)/python -m pytest -m "timing or memory"

test-quick: $(VENV)/installed $(VENV)/test-tools  ## Run the tests that take under a second each: a minute in all.
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not timing and not memory"

# KerasHub without TensorFlow, which it asks for and the test does not need.
recipes: $(VENV)/recipes-tools  ## Install MONAI, DeepForest and KerasHub (650 MB): without them nine tests are skipped.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps "keras-hub>=0.32"

# Warnings that newer versions of these packages give do not matter here.
test-oldest: $(BIN)/python  ## Run tests with the oldest versions of other packages that pyproject.toml allows.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/oldest
	$(BIN)/uv pip install --quiet --python build/oldest --resolution lowest-direct ".[$(OLDEST_EXTRAS)]" $(OLDEST_TOOLS)
	build/oldest/bin/python -m pytest -n auto -m "not slow and not timing and not memory" -W ignore::DeprecationWarning \
		$(OLDEST_TESTS)

OLDEST_EXTRAS := torch,detectors,tables,files,scenes,eval,plot
OLDEST_TOOLS := "pytest>=8" "pytest-xdist>=3.6" "hypothesis>=6.100" "ml_dtypes>=0.4" "pandas>=2.0" "polars>=1.3"
OLDEST_TESTS := $(addprefix tests/test_,minimal.py cli.py cli_files.py compare.py evaluate.py files.py hashing.py merging.py \
	pipeline.py plot.py scenes.py tables.py torch_device.py torch_modules.py torch_ops.py torch_registration.py) \
	$(wildcard tests/test_suppression_*.py tests/test_detectors*.py)

# AddressSanitizer and UndefinedBehaviorSanitizer on all of the core's tests, ThreadSanitizer on those with threads. Built
# without vector clones, because the loader chooses clones before a sanitizer has started.
sanitize: $(VENV)/installed $(VENV)/test-tools  ## Run the core's tests under sanitizers.
	$(call install_sanitized,address$(comma)undefined,build/asan)
	ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=build/asan \
		LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
		$(BIN)/python -m pytest -p no:cacheprovider -m "core and not timing and not memory"
	$(call install_sanitized,thread,build/tsan)
	TSAN_OPTIONS=halt_on_error=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=build/tsan \
		LD_PRELOAD="$$($(CXX) -print-file-name=libtsan.so)" \
		$(BIN)/python -m pytest -p no:cacheprovider --without-torch -m "core and threads"

comma := ,
install_sanitized = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(2) . \
	-Ccmake.define.HASHNMS_SANITIZE=$(1) -Ccmake.define.HASHNMS_VECTOR_CLONES=OFF -Cbuild-dir=$(2)-build

lint: $(VENV)/installed $(VENV)/lint-tools  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP)

# It imports every part of the package, so it needs the packages of the tests. A warning is an error, for example a broken
# link or a public name that is not in the reference.
docs: $(VENV)/installed $(VENV)/test-tools $(VENV)/docs-tools  ## Build the documentation site in build/docs.
	$(BIN)/python -m sphinx -b html -W --keep-going -n -q -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

format: $(VENV)/lint-tools  ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

bench: $(VENV)/installed $(VENV)/bench-tools  ## Compare hashnms with its peers (slow); results in build/benchmarks.json and build/benchmarks/page.md.
	mkdir -p build/benchmarks build/images
	$(BIN)/python -m benchmarks --output build/benchmarks.json
	$(BIN)/python -m benchmarks.page build/benchmarks.json --output build/benchmarks/page.md

bench-quick: $(VENV)/installed $(VENV)/bench-tools  ## A part of it in two minutes: fails if a ratio fell by more than half.
	$(BIN)/python -m benchmarks.quick

stub: $(VENV)/installed  ## Update the core's stub from the build.
	cp "$$($(BIN)/python -c 'import hashnms._core as c, pathlib; print(pathlib.Path(c.__file__).with_name("_core.pyi"))')" src/hashnms/_core.pyi

clean:  ## Remove what was built.
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check .
	@touch $@

# The tools of an extra of pyproject.toml, without building the package again.
$(VENV)/%-tools: $(BIN)/python pyproject.toml
	$(BIN)/python -c "from pip._vendor import tomli; print(*tomli.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$*'], sep='\n')" > $@.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $@.txt
	@touch $@
