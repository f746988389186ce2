"""Finds the session in which the shim asks a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pyhudi.spark.interrupts import INTERRUPTS

#: an object of the JVM that comes with a question
JavaObject = Any


class Sessions(Protocol):
    """The sessions of one application."""

    def asking(self) -> SparkSession:
        """The session whose statement asks on this thread."""

    def of(self, jdf: JavaObject) -> SparkSession:
        """The session that the JVM's DataFrame belongs to."""

    def cancelled(self) -> bool:
        """Whether the client has cancelled the statement that asks on this thread."""


@dataclass(frozen=True, slots=True)
class AttachedSession:
    """The session that a Python driver attached."""

    session: SparkSession

    def asking(self) -> SparkSession:
        return self.session

    def of(self, jdf: JavaObject) -> SparkSession:
        return self.session

    def cancelled(self) -> bool:
        return INTERRUPTS.told()


@dataclass(frozen=True, slots=True)
class ServedSessions:
    """The sessions of a server in the JVM: each statement has its own, with settings and views.

    A question and the calls that answer it share a thread of the JVM, so ``entry`` (the shim's
    ``PlannerEntry``) knows the session that is active there.
    """

    context: SparkContext
    entry: Any

    def asking(self) -> SparkSession:
        return SparkSession(self.context, self.entry.asking())

    def of(self, jdf: JavaObject) -> SparkSession:
        return SparkSession(self.context, jdf.sparkSession())

    def cancelled(self) -> bool:
        return bool(self.entry.isCancelled())
