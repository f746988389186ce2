package org.apache.spark.sql.pyhudi

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd, SparkListenerEvent}

/** Spark's listener bus; only Spark's own packages may use it. */
object ListenerBus {

  private val queue = "pyhudi"
  private val capacity = s"spark.scheduler.listenerbus.eventqueue.$queue.capacity"
  private val marks = new AtomicLong

  /** Adds a listener that gets every event. Spark drops events if a queue is full, so this one has
    * no bound; and it is a separate queue, so other listeners do not delay it.
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

  /** Sends a [[Delivered]] after all events sent so far; returns its number. */
  def mark(context: SparkContext): Long = {
    val number = marks.incrementAndGet()
    context.listenerBus.post(Delivered(number))
    number
  }
}

/** A listener that the running application has once; a new application gets a new one. */
final class OneListener[L <: SparkListener](fresh: () => L) {

  private var installed: Option[(SparkContext, L)] = None

  def of(context: SparkContext): L = synchronized {
    installed match {
      case Some((known, active)) if known eq context => active
      case _ =>
        val listener = fresh()
        ListenerBus.add(context, listener)
        installed = Some(context -> listener)
        listener
    }
  }

  def known: Option[L] = synchronized(installed.map(_._2))
}

/** An event of pyhudi: a listener that has it also has all events that were sent before it. */
final case class Delivered(mark: Long) extends SparkListenerEvent {

  /** Spark's event logs do not need it. */
  override protected[spark] def logEvent: Boolean = false
}
