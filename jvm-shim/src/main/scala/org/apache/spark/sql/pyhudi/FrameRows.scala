package org.apache.spark.sql.pyhudi

import scala.util.control.NonFatal

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row}

/** The rows of a DataFrame for a relation that needs no conversion. */
object FrameRows {

  /** An error that a worker of pyhudi raised: its class, then its code, message and facts. */
  private val told =
    """(?:^|\n)pyhudi\.errors\.(\w+): (\[[A-Z_]+\] [^\n]*(?:\npyhudi-facts [^\n]*)?)""".r

  /** Spark's own rows, in the type that relations declare. A worker's error is pyhudi's. */
  def of(frame: DataFrame): RDD[Row] =
    Frames.execution(frame).toRdd.mapPartitions { rows =>
      new Iterator[AnyRef] {
        override def hasNext: Boolean = guarded(rows.hasNext)
        override def next(): AnyRef = guarded(rows.next())
      }
    }.asInstanceOf[RDD[_]].asInstanceOf[RDD[Row]]

  private def guarded[T](work: => T): T =
    try work
    catch {
      case NonFatal(e) =>
        throw told.findFirstMatchIn(String.valueOf(e.getMessage)).fold(e) { found =>
          new HudiAnalysisException(found.group(2), found.group(1), Some(e))
        }
    }
}
