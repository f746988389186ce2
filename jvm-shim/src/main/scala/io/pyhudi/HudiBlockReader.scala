package io.pyhudi

import java.io.{EOFException, FileNotFoundException, IOException}
import java.nio.ByteBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, Path}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Decodes the rows of log files into Spark's own vectors. Generated code then meets one class of
  * vector in all partitions of a scan, and no Python worker starts.
  */
private[pyhudi] final class HudiBlockReader(partition: HudiBlocks, conf: Configuration)
    extends PartitionReader[ColumnarBatch] {

  private val vectors: Array[WritableColumnVector] =
    OnHeapColumnVector.allocateColumns(HudiBlockReader.rows, partition.schema).toArray
  private val batch = new ColumnarBatch(vectors.toArray[ColumnVector])
  private val blocks = partition.blocks.iterator
  private var current: Option[HudiOpenBlock] = None
  private var opened: Option[(String, FSDataInputStream)] = None

  override def next(): Boolean = {
    vectors.foreach(_.reset())
    var count = 0
    var bytes = 0L
    while (count < HudiBlockReader.rows && bytes < HudiBlockReader.bytes && advance()) {
      count = current.get.fill(vectors, count, HudiBlockReader.rows)
      bytes += current.get.length
    }
    batch.setNumRows(count)
    count > 0
  }

  override def get(): ColumnarBatch = batch

  override def close(): Unit = {
    batch.close()
    opened.foreach(_._2.close())
    opened = None
  }

  /** Goes on to the next block, if the current one has no further row. */
  private def advance(): Boolean = {
    while (!current.exists(_.hasRows) && blocks.hasNext) {
      val block = blocks.next()
      current = Some(new HudiOpenBlock(block, partition.schema, content(block)))
    }
    current.exists(_.hasRows)
  }

  private def content(block: HudiBlock): Array[Byte] =
    try {
      val bytes = new Array[Byte](block.length)
      file(block.path).readFully(block.at, bytes)
      bytes
    } catch {
      case e: FileNotFoundException => throw new HudiAnalysisException(
          s"[HISTORY_EXPIRED] The query needs ${block.path}, and this file is gone: a clean or a " +
            "rollback has deleted it since the query was planned. Run the query again.",
          "HistoryExpired",
          Some(e)
        )
      case e: EOFException => throw HudiBlockReader.corrupt(block, "it was cut off", e)
      case e: IOException => throw new HudiAnalysisException(
          s"[STORAGE_ERROR] A data file could not be read: ${e.getMessage} Read again when the " +
            "storage answers.",
          "StorageError",
          Some(e))
    }

  /** The log of a block; blocks of one log follow each other. */
  private def file(path: String): FSDataInputStream = opened match {
    case Some((`path`, stream)) => stream
    case _ =>
      opened.foreach(_._2.close())
      opened = None
      val place = new Path(path)
      val stream = place.getFileSystem(conf).open(place)
      opened = Some(path -> stream)
      stream
  }
}

private[pyhudi] object HudiBlockReader {

  /** Rows of a batch at most. */
  val rows = 4096

  /** Of blocks with so many bytes no further one is put into the same batch. */
  val bytes: Long = 64L << 20

  /** The same rows one by one. */
  def byRows(partition: HudiBlocks, conf: Configuration): PartitionReader[InternalRow] =
    new PartitionReader[InternalRow] {
      private val batches = new HudiBlockReader(partition, conf)
      private var rows: java.util.Iterator[InternalRow] = java.util.Collections.emptyIterator()

      override def next(): Boolean = {
        while (!rows.hasNext && batches.next()) rows = batches.get().rowIterator()
        rows.hasNext
      }
      override def get(): InternalRow = rows.next()
      override def close(): Unit = batches.close()
    }

  def corrupt(block: HudiBlock, what: String, e: Throwable): Throwable =
    new HudiAnalysisException(
      s"[TABLE_CORRUPT] ${block.path} breaks a rule of the format: a data block holds rows of " +
        s"its schema (spec/log_files.md L4). Those from byte ${block.at} on do not: $what. " +
        "Nothing was changed. Restore the file from a copy, or set the table back to a savepoint.",
      "TableCorrupt",
      Some(e)
    )
}

/** A part of a block in memory: records, each behind its length. */
private[pyhudi] final class HudiOpenBlock(
    block: HudiBlock,
    schema: StructType,
    content: Array[Byte]) {

  private val puts = block.fields.map(f =>
    if (f.column < 0) null else HudiAvroPut.of(f, schema(f.column).dataType)).toArray
  private val columns = block.fields.map(_.column).toArray
  private val forms = block.fields.map(_.form).toArray
  private val absent = schema.indices.filterNot(columns.contains).toArray
  private val from = new HudiOctets(content)
  private val lengths = ByteBuffer.wrap(content)
  private var next = 0
  private var record = 0

  def length: Int = content.length

  def hasRows: Boolean = next < block.kept.length

  /** Puts rows from `row` on until there are `most`; returns how many there are then. */
  def fill(to: Array[WritableColumnVector], row: Int, most: Int): Int =
    try {
      var count = row
      while (count < most && next < block.kept.length) {
        skipTo(block.kept(next))
        put(to, count)
        next += 1
        count += 1
      }
      count
    } catch {
      case e @ (_: IndexOutOfBoundsException | _: IllegalArgumentException) =>
        throw HudiBlockReader.corrupt(block, s"record $record does not decode (${e.getMessage})", e)
    }

  private def skipTo(number: Int): Unit =
    while (record < number) {
      from.at += 4 + size()
      record += 1
    }

  private def size(): Int = {
    val found = lengths.getInt(from.at)
    if (found < 0 || found > content.length - from.at - 4)
      throw new IllegalArgumentException(s"a record of $found bytes does not fit")
    found
  }

  private def put(to: Array[WritableColumnVector], row: Int): Unit = {
    val end = from.at + 4 + size()
    from.at += 4
    var field = 0
    while (field < forms.length) {
      val column = columns(field)
      if (column < 0) forms(field).pass(from) else puts(field).put(from, to(column), row)
      field += 1
    }
    if (from.at != end)
      throw new IllegalArgumentException("it does not end where the next one begins")
    record += 1
    absent.foreach(to(_).putNull(row))
  }
}
