package org.apache.spark.sql.pyhudi

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{CommandExecutionMode, LogicalRDD, QueryExecution}
import org.apache.spark.sql.internal.SharedState

/** Internal parts of DataFrames, for Spark 3.5. */
private[pyhudi] object Frames {

  def execution(frame: DataFrame): QueryExecution = frame.queryExecution

  /** The columns of `frame` with other rows. */
  def over(frame: DataFrame, rows: RDD[InternalRow]): DataFrame =
    frame.sparkSession.internalCreateDataFrame(rows, frame.schema)

  /** Another plan in the session of `frame`. */
  def of(frame: DataFrame, plan: LogicalPlan): DataFrame = Dataset.ofRows(frame.sparkSession, plan)

  /** The executed rows of `frame`, with what Spark knows of their size. */
  def rowsOf(frame: DataFrame): LogicalPlan =
    LogicalRDD.fromDataset(execution(frame).toRdd, frame, isStreaming = false)

  /** What all sessions of the application share. */
  def sharedState: SharedState = SparkSession.active.sharedState

  /** Executes a plan in the session of this thread. */
  def execution(plan: LogicalPlan): QueryExecution =
    SparkSession.active.sessionState.executePlan(plan, CommandExecutionMode.SKIP)
}
