package io.pyhudi

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.FilePartition
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory
import org.apache.spark.sql.execution.pyhudi.{ColumnWidening, RowBatches}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SerializableConfiguration

/** Reads files of one physical schema; `widening` is set if it differs from the table's.
  *
  * @param parquet reads files whose rows all count, if there are any
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
  * @param conf the settings for reading blocks, shared with the readers of files if there are any
  */
private[pyhudi] final case class HudiReaderFactory(
    variants: IndexedSeq[HudiVariant],
    changes: Option[HudiChanged],
    columnar: Boolean,
    schema: StructType,
    conf: Option[Broadcast[SerializableConfiguration]])
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
      case blocks: HudiBlocks => new HudiBlockReader(blocks, conf.get.value.value)
      case files: HudiInputPartition =>
        val variant = variants(files.physical)
        val reader = read[ColumnarBatch](files, _.createColumnarReader(_), _.batches(_, _))
        variant.widening.fold(reader)(_.batches(reader))
    }

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    partition match {
      case rows: HudiWorkerPartition => counted(HudiWorkerReaders.createReader(rows))
      case blocks: HudiBlocks => HudiBlockReader.byRows(blocks, conf.get.value.value)
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
    val variants = reading.physicalSchemas(plan).map { case (physical, numbers) =>
      val masks = plan.kinds.collect { case (schema, masks) if numbers(schema) => masks }
      val less = if (masks(true)) Some(masked(physical, reading)) else None
      HudiVariant(
        less.filter(_ => !masks(false)).fold(reading.parquetReader(physical))(_._1),
        ColumnWidening.between(physical, reading.stored, reading.constants),
        less)
    }
    val shared = variants.headOption.map(_.parquet.broadcastedConf)
    HudiReaderFactory(
      variants,
      reading.changed.map(HudiChanged(_, reading.read, reading.schema)),
      reading.columnar,
      reading.schema,
      shared.orElse(if (plan.logRows > 0) Some(HudiReading.broadcast(Compat.newHadoopConf()))
      else None)
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
