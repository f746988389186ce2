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


def jvm_sessions(jvm: JavaObject) -> JavaObject:
    """The JVM's class of sessions, with its static methods."""
    module = getattr(SparkSession, "_get_j_spark_session_module", None)  # since Spark 4
    return module(jvm) if module else jvm.SparkSession


def are_pinned(context: SparkContext) -> bool:
    """Whether each thread of Python has one of the JVM: not if PYSPARK_PIN_THREAD is false."""
    inside: Any = context
    return hasattr(inside._gateway._gateway_client, "get_thread_connection")


@dataclass(frozen=True, slots=True)
class AttachedSession:
    """The session that a Python driver attached, and those that it made of it.

    A stream has a copy of its session, and so has ``newSession()``: with settings of their own.
    """

    session: SparkSession

    def asking(self) -> SparkSession:
        inside: Any = self.session
        if not are_pinned(inside.sparkContext):
            return self.session  # a call may run on another thread of the JVM than the question
        active = jvm_sessions(inside._jvm).getActiveSession()
        return self._as(active.get()) if active.isDefined() else self.session

    def of(self, jdf: JavaObject) -> SparkSession:
        return self._as(jdf.sparkSession())

    def _as(self, found: JavaObject) -> SparkSession:
        inside: Any = self.session
        if found.equals(inside._jsparkSession):
            return self.session
        return SparkSession(inside.sparkContext, found)

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
