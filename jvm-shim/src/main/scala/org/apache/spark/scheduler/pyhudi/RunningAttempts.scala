package org.apache.spark.scheduler.pyhudi

import scala.collection.JavaConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.TaskSchedulerImpl

/** The attempts that Spark's scheduler has started and not seen end; only its own package may ask
  * for them. It knows an attempt from its launch on, long before the event.
  */
object RunningAttempts {

  /** Whether an attempt runs whose job has the local property `name` with this value. */
  def exist(context: SparkContext, name: String, value: String): Boolean =
    context.taskScheduler match {
      case known: TaskSchedulerImpl =>
        known.taskIdToTaskSetManager.values().asScala
          .exists(set => Option(set.taskSet.properties).exists(_.getProperty(name) == value))
      case other =>
        throw new UnsupportedOperationException(
          s"pyhudi cannot tell which tasks still write under ${other.getClass.getName}.")
    }
}
