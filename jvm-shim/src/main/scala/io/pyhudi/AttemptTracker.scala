package io.pyhudi

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.api.java.JavaSparkContext
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.pyhudi.RunningAttempts
import org.apache.spark.sql.pyhudi.{Delivered, ListenerBus, OneListener}

/** Knows when all attempts of a write's tasks have ended, speculative ones included.
  *
  * A job belongs to a write by its local property `pyhudi.write`: the write's instant and table,
  * since tables of one application may have the same instants. When a job has its result, attempts
  * whose result was not used may still upload. Python calls `install` once, runs its jobs, and then
  * calls `awaitEnd` before it looks for stray files. Jobs are known from Spark's events, of which
  * none is dropped (`ListenerBus`). Attempts are known from Spark's scheduler, which knows them
  * before their events are sent.
  */
object AttemptTracker {

  val property = "pyhudi.write"

  private val PauseMs = 10L

  private val listener = new OneListener(() => new JobListener)

  def install(context: JavaSparkContext): Unit = install(context.sc)

  def install(context: SparkContext): Unit = {
    listener.of(context)
    ()
  }

  /** Waits until all jobs and attempts of the write `key` have ended, at most `timeoutMs`.
    *
    * @return false if something still runs when the time is over, or if no job of this key was ever
    *   seen: then nothing is known
    */
  def awaitEnd(context: JavaSparkContext, key: String, timeoutMs: Long): Boolean =
    awaitEnd(context.sc, key, timeoutMs)

  def awaitEnd(context: SparkContext, key: String, timeoutMs: Long): Boolean =
    awaitQuiet(context, key, timeoutMs) && listener.of(context).hasSeen(key)

  /** Like [[awaitEnd]] for a failed write, whose jobs it cancels: whoever interrupted the write may
    * not have. Also true if none of its jobs ever began. It waits on an interrupted thread, too.
    */
  def cancelAndAwait(context: JavaSparkContext, key: String, timeoutMs: Long): Boolean = {
    val jobs = listener.of(context.sc)
    def cancel(): Unit = jobs.running(key).foreach(context.sc.cancelJob)
    Uninterrupted.waiting(awaitQuiet(context.sc, key, timeoutMs, () => cancel()))
  }

  private def awaitQuiet(
      context: SparkContext,
      key: String,
      timeoutMs: Long,
      whenDelivered: () => Unit = () => ()): Boolean = {
    val deadline = System.nanoTime() + timeoutMs * 1000000L
    val jobs = listener.of(context)
    // Events arrive late: all events sent so far must be delivered to know which jobs began.
    if (!jobs.awaitDelivery(ListenerBus.mark(context), deadline)) return false
    whenDelivered()
    jobs.awaitEnd(key, deadline) && noneRuns(context, key, deadline)
  }

  /** A job that has ended starts no more attempts. */
  private def noneRuns(context: SparkContext, key: String, deadline: Long): Boolean = {
    while (RunningAttempts.exist(context, property, key)) {
      if (System.nanoTime() >= deadline) return false
      Thread.sleep(PauseMs)
    }
    true
  }

  /** Forgets a write; later events of its jobs are ignored. */
  def forget(key: String): Unit = listener.known.foreach(_.forget(key))
}

/** The running jobs of each write, from Spark's events. */
private[pyhudi] class JobListener extends SparkListener {

  private val writes = mutable.Map.empty[String, mutable.Set[Int]]
  private val keyOfJob = mutable.Map.empty[Int, String]
  private var delivered = 0L

  override def onJobStart(event: SparkListenerJobStart): Unit = synchronized {
    Option(event.properties).flatMap(p => Option(p.getProperty(AttemptTracker.property)))
      .foreach { key =>
        writes.getOrElseUpdate(key, mutable.Set.empty) += event.jobId
        keyOfJob(event.jobId) = key
      }
  }

  override def onJobEnd(event: SparkListenerJobEnd): Unit = synchronized {
    keyOfJob.remove(event.jobId).flatMap(writes.get).foreach(_ -= event.jobId)
    notifyAll()
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case Delivered(mark) => synchronized {
        delivered = delivered.max(mark)
        notifyAll()
      }
    case _ => ()
  }

  /** Whether all events before `mark` were delivered within the time. */
  def awaitDelivery(mark: Long, deadlineNanos: Long): Boolean =
    await(deadlineNanos)(delivered >= mark)

  def awaitEnd(key: String, deadlineNanos: Long): Boolean =
    await(deadlineNanos)(writes.get(key).forall(_.isEmpty))

  def running(key: String): Seq[Int] = synchronized(writes.get(key).toSeq.flatten)

  def hasSeen(key: String): Boolean = synchronized(writes.contains(key))

  def forget(key: String): Unit = synchronized {
    writes -= key
    keyOfJob --= keyOfJob.collect { case (job, `key`) => job }
  }

  private def await(deadlineNanos: Long)(done: => Boolean): Boolean = synchronized {
    var leftMs = 1L
    while (leftMs > 0 && !done) {
      leftMs = (deadlineNanos - System.nanoTime()) / 1000000L
      if (leftMs > 0) wait(leftMs)
    }
    done
  }
}
