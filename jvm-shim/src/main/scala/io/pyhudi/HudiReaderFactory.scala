package io.pyhudi

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.FilePartition
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory
import org.apache.spark.sql.execution.pyhudi.{ColumnWidening, RowBatches}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Reads files of one physical schema; `widening` is set if it differs from the table's.
  *
  * @param masked reads files with masked rows, which `masking` leaves out
  */
private[pyhudi] final case class HudiVariant(
    parquet: ParquetPartitionReaderFactory,
    widening: Option[ColumnWidening],
    masked: Option[(ParquetPartitionReaderFactory, HudiMasking)])

/** The rows of an incremental read, in the columns that are `read` and those that are `wanted`. */
private[pyhudi] final case class HudiChanged(
    rows: HudiRangeRows,
    read: StructType,
    wanted: StructType)

/** Makes the readers on executors: Spark's vectorized Parquet reader, unchanged; for an incremental
  * read only the rows that count. Rows of log files come from blocks, or from Python's workers.
  *
  * @param columnar whether there are batches, also of rows of log files
  * @param schema the columns of the rows of log files
  */
private[pyhudi] final case class HudiReaderFactory(
    variants: IndexedSeq[HudiVariant],
    changes: Option[HudiChanged],
    columnar: Boolean,
    schema: StructType)
    extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = partition match {
    case _: HudiWorkerPartition | _: HudiBlocks => columnar
    case files: HudiInputPartition =>
      changes.isEmpty && variants(files.physical).parquet.supportColumnarReads(partition)
  }

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    partition match {
      case rows: HudiWorkerPartition =>
        new RowBatches(HudiWorkerReaders.createReader(rows), schema)
      case blocks: HudiBlocks => new HudiBlockReader(blocks)
      case files: HudiInputPartition =>
        val variant = variants(files.physical)
        val reader = read[ColumnarBatch](files, _.createColumnarReader(_), _.batches(_, _))
        variant.widening.fold(reader)(_.batches(reader))
    }

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    partition match {
      case rows: HudiWorkerPartition => counted(HudiWorkerReaders.createReader(rows))
      case blocks: HudiBlocks => HudiBlockReader.byRows(blocks)
      case files: HudiInputPartition =>
        val variant = variants(files.physical)
        val reader = read[InternalRow](files, _.createReader(_), _.rows(_, _))
        counted(variant.widening.fold(reader)(_.rows(reader)))
    }

  private def counted(rows: PartitionReader[InternalRow]): PartitionReader[InternalRow] =
    changes.fold(rows)(changed => changed.rows.among(rows, changed.read, changed.wanted))

  /** The reader of a partition's files. Those with masked rows are read one by one: a batch does
    * not say which file it is from.
    */
  private def read[T](
      partition: HudiInputPartition,
      open: (ParquetPartitionReaderFactory, FilePartition) => PartitionReader[T],
      less: (HudiMasking, PartitionReader[T], Option[HudiMask]) => PartitionReader[T])
      : PartitionReader[T] = {
    val variant = variants(partition.physical)
    def guarded(parquet: ParquetPartitionReaderFactory, files: FilePartition): PartitionReader[T] =
      new HudiGuardedReader(open(parquet, files), files, parquet.broadcastedConf.value.value)
    variant.masked.filter(_ => partition.masked.nonEmpty).fold(
      guarded(variant.parquet, partition.files)) { case (parquet, masking) =>
      val each = partition.files.files.iterator.zip(partition.masked.iterator)
      new HudiReadersInTurn(each.map { case (file, mask) =>
        val reader = guarded(parquet, FilePartition(partition.files.index, Array(file)))
        less(masking, reader, mask.map(HudiMask.of))
      })
    }
  }
}

private[pyhudi] object HudiReaderFactory {

  def apply(plan: HudiScanPlan, reading: HudiReading): HudiReaderFactory = {
    val masks = plan.files.exists(_.masked.isDefined)
    HudiReaderFactory(
      reading.physicalSchemas(plan).map { case (physical, _) =>
        HudiVariant(
          reading.parquetReader(physical),
          ColumnWidening.between(physical, reading.stored, reading.constants),
          if (masks) Some(masked(physical, reading)) else None)
      },
      reading.changed.map(HudiChanged(_, reading.read, reading.schema)),
      reading.columnar,
      reading.schema
    )
  }

  private def masked(
      physical: StructType,
      reading: HudiReading): (ParquetPartitionReaderFactory, HudiMasking) = {
    val known = physical.fieldNames.indexOf(HudiReading.numbered.name)
    val read = if (known < 0) physical.add(HudiReading.numbered) else physical
    val at = if (known < 0) physical.length else known
    val columns = StructType(read.fields ++ reading.constants.fields)
    (reading.parquetReader(read), HudiMasking(columns, at, surplus = known < 0))
  }
}
