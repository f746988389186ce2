package io.pyhudi

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.FilePartition
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory
import org.apache.spark.sql.execution.pyhudi.ColumnWidening
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Reads files of one physical schema; `widening` is set if it differs from the table's. */
private[pyhudi] final case class HudiVariant(
    parquet: ParquetPartitionReaderFactory,
    widening: Option[ColumnWidening])

/** The rows of an incremental read, in the columns that are `read` and those that are `wanted`. */
private[pyhudi] final case class HudiChanged(
    rows: HudiRangeRows,
    read: StructType,
    wanted: StructType)

/** Makes the readers on executors: Spark's vectorized Parquet reader, unchanged; for an incremental
  * read only the rows that count.
  */
private[pyhudi] final case class HudiReaderFactory(
    variants: IndexedSeq[HudiVariant],
    changes: Option[HudiChanged])
    extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean =
    changes.isEmpty && variant(partition).parquet.supportColumnarReads(partition)

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] = {
    val parquet = variant(partition).parquet
    val reader = guarded(partition, parquet.createColumnarReader(files(partition)))
    variant(partition).widening.fold(reader)(_.batches(reader))
  }

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val reader = guarded(partition, variant(partition).parquet.createReader(files(partition)))
    val rows = variant(partition).widening.fold(reader)(_.rows(reader))
    changes.fold(rows)(changed => changed.rows.among(rows, changed.read, changed.wanted))
  }

  private def variant(partition: InputPartition): HudiVariant =
    variants(partition.asInstanceOf[HudiInputPartition].physical)

  private def guarded[T](
      partition: InputPartition,
      reader: PartitionReader[T]): PartitionReader[T] =
    new HudiGuardedReader(
      reader,
      files(partition),
      variant(partition).parquet.broadcastedConf.value.value)

  private def files(partition: InputPartition): FilePartition =
    partition.asInstanceOf[HudiInputPartition].files
}

private[pyhudi] object HudiReaderFactory {

  def apply(plan: HudiScanPlan, reading: HudiReading): HudiReaderFactory =
    HudiReaderFactory(
      reading.physicalSchemas(plan).map { case (physical, _) =>
        HudiVariant(
          reading.parquetReader(physical),
          ColumnWidening.between(physical, reading.stored, reading.constants))
      },
      reading.changed.map(HudiChanged(_, reading.read, reading.schema))
    )
}
