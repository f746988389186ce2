package io.pyhudi

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}
import org.apache.spark.sql.execution.pyhudi.SizeMetric

/** The numbers of a scan in Spark's SQL tab. */
private[pyhudi] object HudiScanMetrics {

  val all: Array[CustomMetric] =
    Array(new HudiFilesRead, new HudiFilesPruned, new HudiPartitionsRead, new HudiBytesRead)

  /** The numbers of a scan that has been planned. */
  def of(plan: HudiScanPlan): Array[CustomTaskMetric] = Array(
    Value("filesRead", plan.files.size.toLong),
    Value("filesPruned", plan.pruned),
    Value("partitionsRead", plan.files.iterator.map(_.folder).toSet.size.toLong),
    Value("bytesRead", plan.sizeInBytes)
  )

  private final case class Value(override val name: String, override val value: Long)
      extends CustomTaskMetric
}

// Spark's listener makes its own instances by class name.

class HudiFilesRead extends CustomSumMetric {
  override def name(): String = "filesRead"
  override def description(): String = "files read"
}

class HudiFilesPruned extends CustomSumMetric {
  override def name(): String = "filesPruned"
  override def description(): String = "files pruned"
}

class HudiPartitionsRead extends CustomSumMetric {
  override def name(): String = "partitionsRead"
  override def description(): String = "partitions read"
}

class HudiBytesRead extends SizeMetric {
  override def name(): String = "bytesRead"
  override def description(): String = "size of files read"
}
