package org.apache.spark.sql.pyhudi

import java.util.concurrent.TimeoutException

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}

/** Spark's listener bus, which only Spark's own packages may touch. */
object ListenerBus {

  /** Adds a listener with a queue of its own, so that slow listeners of others lose it nothing. */
  def add(context: SparkContext, listener: SparkListener): Unit =
    context.listenerBus.addToQueue(listener, "pyhudi")

  /** Runs `action` once, when the application ends. */
  def onApplicationEnd(context: SparkContext)(action: => Unit): Unit =
    add(
      context,
      new SparkListener {
        override def onApplicationEnd(event: SparkListenerApplicationEnd): Unit = action
      })

  /** Waits until all posted events are delivered; false if that takes longer than `timeoutMs`. */
  def drain(context: SparkContext, timeoutMs: Long): Boolean =
    try {
      context.listenerBus.waitUntilEmpty(timeoutMs)
      true
    } catch { case _: TimeoutException => false }
}
