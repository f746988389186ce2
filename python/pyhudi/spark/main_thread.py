"""The main thread of a program that attached: it answers its own questions, and hears Ctrl-C."""

from __future__ import annotations

import os
import threading
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pyhudi.spark.interrupts import INTERRUPTS
from pyhudi.spark.sessions import are_pinned, jvm_sessions


def interruptible(spark: SparkSession) -> None:
    """Let Ctrl-C cancel the statement of the main thread, and the Spark jobs of this one alone.

    Nothing happens on another thread than the main one: Python gives signals to that thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    context = spark.sparkContext
    tag = f"pyhudi-statement-{os.getpid()}"

    _answer_here(spark, context)
    context.addJobTag(tag)
    INTERRUPTS.install(lambda: context.cancelJobsWithTag(tag), lambda: _hang_up(context))


def _hang_up(context: SparkContext) -> None:
    """Close this thread's connection; the next call makes another one."""
    inside: Any = context
    connection = inside._gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()


def _answer_here(spark: SparkSession, context: SparkContext) -> None:
    """Let this thread answer what the JVM asks on its behalf.

    A thread does so by a connection that was made after the callback server was started. Others,
    as the main thread's first one, get their answers from a thread of the callback server, which
    no signal reaches. The new connection has a new thread in the JVM; it goes on as the old one.
    """
    inside: Any = context
    client: Any = inside._gateway._gateway_client
    if not are_pinned(context):
        return
    scala = inside._jsc.sc()
    settings = scala.getLocalProperties()
    before = client.get_thread_connection()
    fresh = client._create_new_connection()
    client._give_back_connection(fresh)
    if before is not None:
        if before in client.deque:
            client.deque.remove(before)
        before.close()
    scala.setLocalProperties(settings)
    session: Any = spark
    jvm_sessions(inside._jvm).setActiveSession(session._jsparkSession)
