package org.apache.spark.sql.pyhudi

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.QueryExecution

/** DataFrames from the inside; this is Spark 3.5's side. */
private[pyhudi] object Frames {

  def execution(frame: DataFrame): QueryExecution = frame.queryExecution

  /** The columns of `frame` over other rows. */
  def over(frame: DataFrame, rows: RDD[InternalRow]): DataFrame =
    frame.sparkSession.internalCreateDataFrame(rows, frame.schema)
}
