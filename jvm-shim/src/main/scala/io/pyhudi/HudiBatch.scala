package io.pyhudi

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** What one batch of a stream reads. */
private[pyhudi] final case class HudiBatch(
    partitions: Array[InputPartition],
    readers: PartitionReaderFactory,
    metrics: Array[CustomTaskMetric]) {

  /** The same with rows of log files, which Python's workers give in the same columns. */
  def withLogRows(rows: RDD[Row]): HudiBatch = copy(
    partitions = partitions ++ HudiBatch.ofWorkers(rows).partitions,
    readers = HudiFilesAndWorkers(readers))
}

private[pyhudi] object HudiBatch {

  val empty: HudiBatch = HudiBatch(Array.empty, HudiWorkerReaders, Array.empty)

  /** Files that Spark's own reader reads, as in a batch read.
    *
    * @param schema the columns of each row: a stream has no place to say another order
    */
  def ofFiles(plan: HudiScanPlan, snapshot: HudiSnapshot, schema: StructType): HudiBatch = {
    val reading = HudiReading(HudiScanRequest(snapshot, schema, Nil, Nil, None))
    val readers = HudiReaderFactory(plan, reading)
    val held = reading.schema.fieldNames
    HudiBatch(
      HudiSplits.of(plan, reading, None),
      if (held.sameElements(schema.fieldNames)) readers
      else HudiOrderedReaders(readers, schema, schema.fieldNames.map(held.indexOf(_)).toSeq),
      HudiScanMetrics.of(plan)
    )
  }

  /** Rows of Python's workers: each partition of the DataFrame is computed where it is read. */
  def ofWorkers(rows: RDD[Row]): HudiBatch = {
    val internal = rows.asInstanceOf[RDD[_]].asInstanceOf[RDD[InternalRow]]
    HudiBatch(
      internal.partitions.map(HudiWorkerPartition(internal, _): InputPartition),
      HudiWorkerReaders,
      Array.empty)
  }
}

/** A partition of an RDD without shuffles. */
private[pyhudi] final case class HudiWorkerPartition(rows: RDD[InternalRow], partition: Partition)
    extends InputPartition

private[pyhudi] case object HudiWorkerReaders extends PartitionReaderFactory {

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val HudiWorkerPartition(rdd, part) = partition.asInstanceOf[HudiWorkerPartition]
    new PartitionReader[InternalRow] {
      private val rows = rdd.iterator(part, TaskContext.get())
      private var row: InternalRow = _

      override def next(): Boolean = {
        val more = rows.hasNext
        if (more) row = rows.next()
        more
      }
      override def get(): InternalRow = row

      // The task ends what the rows come from.
      override def close(): Unit = ()
    }
  }
}

/** Reads files by `files`, and what Python's workers give as it comes. */
private[pyhudi] final case class HudiFilesAndWorkers(files: PartitionReaderFactory)
    extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean =
    files.supportColumnarReads(partition)

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    partition match {
      case rows: HudiWorkerPartition => HudiWorkerReaders.createReader(rows)
      case _ => files.createReader(partition)
    }

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    files.createColumnarReader(partition)
}

/** Rows with the columns of `readers` in another order.
  *
  * @param ordinals for each column the place that it has in `readers`
  */
private[pyhudi] final case class HudiOrderedReaders(
    readers: PartitionReaderFactory,
    schema: StructType,
    ordinals: Seq[Int])
    extends PartitionReaderFactory {

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new PartitionReader[InternalRow] {
      private val reader = readers.createReader(partition)
      private val ordered = ProjectingInternalRow(schema, ordinals)

      override def next(): Boolean = reader.next()
      override def get(): InternalRow = {
        ordered.project(reader.get())
        ordered
      }
      override def close(): Unit = reader.close()
    }

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    throw new UnsupportedOperationException("rows are put in order one by one")
}
