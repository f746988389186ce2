package org.apache.spark.sql.pyhudi

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{ExternalRDD, LogicalRDD}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.LongAccumulator

/** The rows of a DataFrame up to a bound, and whether these are all.
  *
  * Spark's estimate of a size is not a bound: compressed files, an `explode` or a user's function
  * may give more. So each task stops at its share of the bound, and cannot flood the driver.
  */
final class BoundedRows private (val frame: DataFrame, cut: LongAccumulator) {

  /** Whether a task stopped before its end; known once `frame` has been collected. */
  def exceeded: Boolean = cut.value > 0
}

object BoundedRows {

  /** Tasks differ in size: each may take this many times its even share. */
  private val Skew = 2L
  private val LeastBytes = 64L << 10

  /** `frame`, cut off at about `maxBytes`; a caller that needs all rows runs its plan again. */
  def of(frame: DataFrame, maxBytes: Long): BoundedRows = {
    val rows = Frames.execution(frame).toRdd
    val share =
      if (maxBytes == Long.MaxValue) maxBytes
      else math.max(LeastBytes, maxBytes / math.max(1, rows.getNumPartitions) * Skew)
    val rowBytes = frame.schema.defaultSize.toLong
    val cut = rows.sparkContext.longAccumulator
    val bounded = rows.mapPartitions { all =>
      var bytes = 0L
      all.takeWhile { row =>
        bytes += (row match {
          case unsafe: UnsafeRow => unsafe.getSizeInBytes.toLong
          case _ => rowBytes
        })
        if (bytes > share) cut.add(1)
        bytes <= share
      }
    }
    new BoundedRows(Frames.over(frame, bounded), cut)
  }

  /** Spark's estimate of the bytes of `frame`.
    *
    * 0 for a source of unknown size that gives its rows one by one, such as a list of Python rows:
    * to begin to read it costs little, and the bound ends it.
    */
  def estimate(frame: DataFrame): Long = {
    val plan = Frames.execution(frame).optimizedPlan
    if (streams(plan)) 0L else plan.stats.sizeInBytes.min(BigInt(Long.MaxValue)).toLong
  }

  private def streams(plan: LogicalPlan): Boolean = plan match {
    case rdd: LogicalRDD => rdd.stats.sizeInBytes >= SQLConf.get.defaultSizeInBytes
    case _: ExternalRDD[_] => true
    case _: Project | _: Filter | _: SerializeFromObject => plan.children.forall(streams)
    case _ => false
  }
}
