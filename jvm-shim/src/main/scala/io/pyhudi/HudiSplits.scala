package io.pyhudi

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

/** The pieces of files that one task reads, all to be asked for the same physical schema. */
private[pyhudi] final case class HudiInputPartition(physical: Int, files: FilePartition)
    extends InputPartition {
  override def preferredLocations(): Array[String] = files.preferredLocations()
}

/** Cuts and packs files into tasks by the settings and the rules of Spark's own file sources. */
private[pyhudi] object HudiSplits {

  def of(plan: HudiScanPlan, reading: HudiReading): Array[InputPartition] = {
    val bytes = splitBytes(plan)
    byPhysicalSchema(plan, reading).zipWithIndex.flatMap { case ((_, files), index) =>
      val pieces = files.flatMap(cut(_, bytes, reading.constants)).sortBy(-_.length)
      FilePartition.getFilePartitions(Compat.activeSession, pieces, bytes)
        .map(HudiInputPartition(index, _): InputPartition)
    }.toArray
  }

  /** The distinct physical schemas, in the order in which input partitions number them. */
  def physicalSchemas(plan: HudiScanPlan, reading: HudiReading): Seq[StructType] =
    byPhysicalSchema(plan, reading).map(_._1)

  private def byPhysicalSchema(
      plan: HudiScanPlan,
      reading: HudiReading): Seq[(StructType, Seq[HudiFile])] = {
    val physical = plan.schemas.map(reading.physical)
    val groups = plan.files.groupBy(file => physical(file.schema))
    physical.distinct.flatMap(schema => groups.get(schema).map(schema -> _))
  }

  /** Bytes per task: no more than the session allows, and small enough to use every core. */
  private def splitBytes(plan: HudiScanPlan): Long = {
    val conf = Compat.conf
    val tasks = conf.filesMinPartitionNum
      .orElse(conf.getConf(SQLConf.LEAF_NODE_DEFAULT_PARALLELISM))
      .getOrElse(Compat.activeSession.sparkContext.defaultParallelism)
    val total = plan.sizeInBytes + plan.files.size * conf.filesOpenCostInBytes
    math.min(conf.filesMaxPartitionBytes, math.max(conf.filesOpenCostInBytes, total / tasks))
  }

  private def cut(file: HudiFile, bytes: Long, constants: StructType): Seq[PartitionedFile] = {
    val path = SparkPath.fromPathString(file.path)
    val values =
      if (constants.isEmpty) InternalRow.empty else InternalRow(UTF8String.fromString(file.path))
    (0L until math.max(file.size, 1L) by bytes).map { start =>
      PartitionedFile(
        values,
        path,
        start,
        math.min(bytes, file.size - start),
        Array.empty,
        0L,
        file.size)
    }
  }
}
