package org.apache.spark.sql.pyhudi

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{classic, DataFrame}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{CommandExecutionMode, LogicalRDD, QueryExecution}
import org.apache.spark.sql.internal.SharedState

/** Internal parts of DataFrames, for Spark 4. */
private[pyhudi] object Frames {

  def execution(frame: DataFrame): QueryExecution = classicOf(frame).queryExecution

  /** The columns of `frame` with other rows. */
  def over(frame: DataFrame, rows: RDD[InternalRow]): DataFrame =
    classicOf(frame).sparkSession.internalCreateDataFrame(rows, frame.schema)

  /** Another plan in the session of `frame`. */
  def of(frame: DataFrame, plan: LogicalPlan): DataFrame =
    classic.Dataset.ofRows(classicOf(frame).sparkSession, plan)

  /** The executed rows of `frame`, with what Spark knows of their size. */
  def rowsOf(frame: DataFrame): LogicalPlan =
    LogicalRDD.fromDataset(execution(frame).toRdd, classicOf(frame), isStreaming = false)

  /** What all sessions of the application share. */
  def sharedState: SharedState = classic.SparkSession.active.sharedState

  /** Executes a plan in the session of this thread. */
  def execution(plan: LogicalPlan): QueryExecution =
    classic.SparkSession.active.sessionState.executePlan(plan, CommandExecutionMode.SKIP)

  private def classicOf(frame: DataFrame): classic.DataFrame =
    frame.asInstanceOf[classic.DataFrame]
}
