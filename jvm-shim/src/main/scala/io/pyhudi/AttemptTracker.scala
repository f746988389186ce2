package io.pyhudi

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.api.java.JavaSparkContext
import org.apache.spark.scheduler._
import org.apache.spark.sql.pyhudi.ListenerBus

/** Knows when every attempt of a write's tasks has ended, losing speculative ones included.
  *
  * A job belongs to a write by its local property `pyhudi.write`. The job's result says nothing of
  * the attempts that lost: they may still be uploading. Python calls `install` once, runs its jobs,
  * and then `awaitEnd` before it looks for stray files.
  */
object AttemptTracker {

  val property = "pyhudi.write"

  private var installed: Option[(SparkContext, AttemptListener)] = None

  def install(context: JavaSparkContext): Unit = install(context.sc)

  def install(context: SparkContext): Unit = {
    listener(context)
    ()
  }

  /** Waits until all jobs and attempts of the write `key` have ended, at most `timeoutMs`.
    *
    * @return false if something still runs at the end of the time, or if no job of this key was
    *   ever seen: then nothing is known
    */
  def awaitEnd(context: JavaSparkContext, key: String, timeoutMs: Long): Boolean =
    awaitEnd(context.sc, key, timeoutMs)

  def awaitEnd(context: SparkContext, key: String, timeoutMs: Long): Boolean = {
    val deadline = System.nanoTime() + timeoutMs * 1000000L
    // Events arrive late; what has started is known only when the bus has delivered all of them.
    ListenerBus.drain(context, timeoutMs) && listener(context).awaitEnd(key, deadline)
  }

  /** Like [[awaitEnd]] for a write that has failed: true as well if none of its jobs ever began. */
  def awaitQuiet(context: JavaSparkContext, key: String, timeoutMs: Long): Boolean = {
    val deadline = System.nanoTime() + timeoutMs * 1000000L
    ListenerBus.drain(context.sc, timeoutMs) && {
      listener(context.sc).awaitEnd(key, deadline)
      listener(context.sc).isQuiet(key)
    }
  }

  /** Drops what is known of a write; later events of its jobs are ignored. */
  def forget(key: String): Unit = synchronized(installed.map(_._2)).foreach(_.forget(key))

  private def listener(context: SparkContext): AttemptListener = synchronized {
    installed match {
      case Some((known, active)) if known eq context => active
      case _ =>
        val fresh = new AttemptListener
        ListenerBus.add(context, fresh)
        installed = Some(context -> fresh)
        fresh
    }
  }
}

/** The running jobs and attempts of each write, kept up by Spark's events. */
private[pyhudi] class AttemptListener extends SparkListener {

  private final class Running {
    val jobs = mutable.Set.empty[Int]
    val attempts = mutable.Set.empty[Long]
    def isOver: Boolean = jobs.isEmpty && attempts.isEmpty
  }

  private val writes = mutable.Map.empty[String, Running]
  private val keyOfJob = mutable.Map.empty[Int, String]
  private val keyOfStage = mutable.Map.empty[Int, String]

  override def onJobStart(event: SparkListenerJobStart): Unit = synchronized {
    Option(event.properties).flatMap(p => Option(p.getProperty(AttemptTracker.property)))
      .foreach { key =>
        writes.getOrElseUpdate(key, new Running).jobs += event.jobId
        keyOfJob(event.jobId) = key
        event.stageIds.foreach(keyOfStage(_) = key)
      }
  }

  override def onJobEnd(event: SparkListenerJobEnd): Unit = synchronized {
    keyOfJob.remove(event.jobId).flatMap(writes.get).foreach(_.jobs -= event.jobId)
    notifyAll()
  }

  override def onTaskStart(event: SparkListenerTaskStart): Unit = synchronized {
    keyOfStage.get(event.stageId).flatMap(writes.get)
      .foreach(_.attempts += event.taskInfo.taskId)
  }

  override def onTaskEnd(event: SparkListenerTaskEnd): Unit = synchronized {
    keyOfStage.get(event.stageId).flatMap(writes.get)
      .foreach(_.attempts -= event.taskInfo.taskId)
    notifyAll()
  }

  def awaitEnd(key: String, deadlineNanos: Long): Boolean = synchronized {
    var leftMs = 1L
    while (leftMs > 0 && writes.get(key).exists(!_.isOver)) {
      leftMs = (deadlineNanos - System.nanoTime()) / 1000000L
      if (leftMs > 0) wait(leftMs)
    }
    writes.get(key).exists(_.isOver)
  }

  def isQuiet(key: String): Boolean = synchronized(writes.get(key).forall(_.isOver))

  def forget(key: String): Unit = synchronized {
    writes -= key
    keyOfJob --= keyOfJob.collect { case (job, `key`) => job }
    keyOfStage --= keyOfStage.collect { case (stage, `key`) => stage }
  }
}
