package org.apache.spark.sql.execution.pyhudi

import org.apache.spark.sql.connector.metric.CustomMetric
import org.apache.spark.util.Utils

/** A number of bytes, shown in Spark's form. */
abstract class SizeMetric extends CustomMetric {

  override def aggregateTaskMetrics(values: Array[Long]): String = Utils.bytesToString(values.sum)
}
