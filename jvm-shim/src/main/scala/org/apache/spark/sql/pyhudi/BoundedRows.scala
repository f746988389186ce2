package org.apache.spark.sql.pyhudi

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{ExternalRDD, LogicalRDD}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.LongAccumulator

/** Rows of a DataFrame, as many as fit into a bound, and whether that is all of them.
  *
  * Spark's estimate of a size is none: compressed files, an `explode` or a user's function make
  * more of it. Each task stops at its share of the bound, so that the driver cannot be flooded.
  */
final class BoundedRows private (val frame: DataFrame, cut: LongAccumulator) {

  /** Whether a task stopped before its end; known once `frame` has been collected. */
  def exceeded: Boolean = cut.value > 0
}

object BoundedRows {

  /** Tasks are of different sizes: each may take this many times its even share. */
  private val Skew = 2L
  private val LeastBytes = 64L << 10

  /** `frame` cut at about `maxBytes`; a caller that needs all of it runs its plan again. */
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
    * 0 where it knows nothing of a source that hands out its rows one by one, such as a list of
    * Python rows: to begin with such a source costs little, and the bound ends it.
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
