package org.apache.spark.sql.pyhudi

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.SQLExecution

/** Frames with metrics that the user observes (`df.observe`).
  *
  * Spark gives an `Observation` its values when an action of the frame's own execution ends. The
  * jobs of a write run parts of it without an action, so they tell it themselves.
  */
object ObservedRows {

  /** `frame`, computed once. Its rows are read here if it is observed, later if it is not: the end
    * of the checkpoint is the action that Spark takes the values from.
    */
  def checkpoint(frame: DataFrame): DataFrame = frame.localCheckpoint(observed(frame))

  /** Tells the observers of `frame` that the rows of its execution have been read. */
  def tell(frame: DataFrame): Unit =
    if (observed(frame)) SQLExecution.withNewExecutionId(Frames.execution(frame), Some("save"))(())

  private def observed(frame: DataFrame): Boolean =
    Frames.execution(frame).observedMetrics.nonEmpty
}
