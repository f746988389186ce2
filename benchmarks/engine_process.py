"""An engine in a process of its own, with the CPU time of its tree beside each answer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.cpu import TreeClock
from benchmarks.engines import ENGINES
from benchmarks.results import Measurement
from integration.peers import maven
from integration.peers.process import LineProcess
from integration.peers.spark import REPO, SPARK_CONF, child_environment

CALL_SECONDS = 3600


class EngineProcess:
    """One engine: a Python driver, its JVM and its workers. ``root`` holds its tables.

    ``checkout`` has the pyhudi that it runs, under the name ``label``; this one's unless told.
    ``more`` is added to the settings of its session.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        memory: str,
        label: str = "",
        checkout: Path | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.name = label or name
        self.root = root
        scratch = root / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        kind = ENGINES[name]
        conf = {
            **SPARK_CONF,
            "spark.driver.memory": memory,
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            **kind.conf(root),
            **(more or {}),
        }
        if kind.jars():
            conf["spark.jars"] = ",".join(str(maven.jar(j)) for j in kind.jars())
        command = [sys.executable, "-m", "benchmarks.worker", name, str(root), json.dumps(conf)]
        env = child_environment(sys.executable)
        # That has the JVMs of tests compile little; here they run as those of users do.
        env.pop("SPARK_SUBMIT_OPTS")
        if checkout is not None:
            env["PYTHONPATH"] = os.pathsep.join([str(REPO), str(checkout / "python")])
        self._process = LineProcess(self.name, command, env, scratch / "log")
        self._clock = TreeClock(self._process.pid)

    @property
    def pid(self) -> int:
        """Its process id, the root of its tree."""
        return self._process.pid

    def measure(
        self, operation: str, number: int, method: str, times: int = 1, **params: Any
    ) -> tuple[Measurement, Any]:
        """Run ``method``, which does ``times`` operations, and also give its result."""
        # Spark ends Python workers that were idle for a minute: their seconds must not run back.
        before = self._clock.look()
        answer = self.ask(method, **params)
        cpu = (self._clock.look() - before) / times
        return Measurement(operation, self.name, number, answer["seconds"], cpu), answer["result"]

    def ask(self, method: str, **params: Any) -> Any:
        """Run ``method`` unmeasured."""
        return self._process.call(method, timeout=CALL_SECONDS, **params)

    def close(self) -> None:
        """End the process."""
        self._process.close()
