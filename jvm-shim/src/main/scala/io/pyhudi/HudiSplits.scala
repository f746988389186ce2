package io.pyhudi

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.unsafe.types.UTF8String

/** The parts of files that one task reads, all with the same physical schema.
  *
  * @param masked for each part the rows of its file that do not count, as `HudiMask` takes it;
  *   empty if all rows of all files count
  */
private[pyhudi] final case class HudiInputPartition(
    physical: Int,
    files: FilePartition,
    masked: IndexedSeq[Option[Array[Byte]]] = IndexedSeq.empty)
    extends InputPartition {
  override def preferredLocations(): Array[String] = files.preferredLocations()
}

/** Cuts and packs files into tasks by the settings and the rules of Spark's own file sources. */
private[pyhudi] object HudiSplits {

  def of(
      plan: HudiScanPlan,
      reading: HudiReading,
      numbers: Option[HudiFileNumbers]): Array[InputPartition] = {
    val bytes = splitBytes(plan)
    val numbered = numbers.getOrElse(new HudiFileNumbers)
    def constants(file: HudiFile): InternalRow =
      InternalRow.fromSeq(reading.constants.fieldNames.toSeq.map {
        case HudiColumns.fileNumber => numbered.of(file.path)
        case _ => UTF8String.fromString(file.path)
      })
    val physical = reading.physicalSchemas(plan)
    def kind(file: HudiFile): (Int, Boolean) =
      (physical.indexWhere(_._2(file.schema)), file.masked.isDefined)
    plan.files.groupBy(kind).toSeq.sortBy(_._1).flatMap {
      case ((index, masked), files) =>
        val pieces = files.flatMap(f => cut(f, bytes, constants(f))).sortBy(-_.length)
        val packed = FilePartition.getFilePartitions(Compat.activeSession, pieces, bytes)
        val masks =
          if (masked) files.map(f => SparkPath.fromPathString(f.path) -> f.masked).toMap
          else Map.empty[SparkPath, Option[Array[Byte]]]
        packed.map { each =>
          val held =
            if (masked) each.files.toIndexedSeq.map(f => masks(f.filePath)) else IndexedSeq.empty
          HudiInputPartition(index, each, held): InputPartition
        }
    }.toArray
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

  private def cut(file: HudiFile, bytes: Long, values: InternalRow): Seq[PartitionedFile] = {
    val path = SparkPath.fromPathString(file.path)
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
