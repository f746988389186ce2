package org.apache.spark.sql.pyhudi

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd, SparkListenerEvent}

/** Spark's listener bus, which only Spark's own packages may touch. */
object ListenerBus {

  private val queue = "pyhudi"
  private val capacity = s"spark.scheduler.listenerbus.eventqueue.$queue.capacity"
  private val marks = new AtomicLong

  /** Adds a listener that gets every event: Spark drops events of a queue that is full, so ours has
    * no bound, and is its own, so that slow listeners of others delay nothing.
    */
  def add(context: SparkContext, listener: SparkListener): Unit = {
    context.conf.set(capacity, Int.MaxValue.toString)
    context.listenerBus.addToQueue(listener, queue)
  }

  /** Runs `action` once, when the application ends. */
  def onApplicationEnd(context: SparkContext)(action: => Unit): Unit =
    add(
      context,
      new SparkListener {
        override def onApplicationEnd(event: SparkListenerApplicationEnd): Unit = action
      })

  /** Sends a [[Delivered]] with the number that is returned, behind all events sent so far. */
  def mark(context: SparkContext): Long = {
    val number = marks.incrementAndGet()
    context.listenerBus.post(Delivered(number))
    number
  }
}

/** An event of ours; a listener that gets it has got all events that were sent before it. */
final case class Delivered(mark: Long) extends SparkListenerEvent {

  /** Spark's event logs have no use for it. */
  override protected[spark] def logEvent: Boolean = false
}
