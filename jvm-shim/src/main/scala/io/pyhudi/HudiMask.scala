package io.pyhudi

import java.nio.{ByteBuffer, ByteOrder}
import java.util.Arrays

import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** The rows of a base file that do not count, since log files replace or delete them. Python has
  * decided which; readers leave them out.
  *
  * @param positions the numbers of these rows in the file, ascending
  */
private[pyhudi] final class HudiMask(positions: Array[Int]) {

  /** The rows of `numbers`, `count` of them and ascending, that count; `None` if all do. */
  def left(numbers: ColumnVector, count: Int): Option[Array[Int]] = {
    var at = if (count == 0) positions.length else from(numbers.getLong(0))
    if (at == positions.length || positions(at) > numbers.getLong(count - 1)) None
    else {
      val picks = new Array[Int](count)
      var kept = 0
      var row = 0
      while (row < count) {
        val number = numbers.getLong(row)
        while (at < positions.length && positions(at) < number) at += 1
        if (at == positions.length || positions(at) != number) {
          picks(kept) = row
          kept += 1
        }
        row += 1
      }
      if (kept == count) None else Some(Arrays.copyOf(picks, kept))
    }
  }

  def masks(number: Long): Boolean = {
    val at = from(number)
    at < positions.length && positions(at) == number
  }

  private def from(number: Long): Int = {
    val found = Arrays.binarySearch(positions, number.toInt)
    if (found < 0) -found - 1 else found
  }
}

private[pyhudi] object HudiMask {

  /** A mask from Python: little-endian 32-bit numbers. */
  def of(bytes: Array[Byte]): HudiMask = new HudiMask(numbers(bytes))

  /** Little-endian 32-bit numbers. */
  def numbers(bytes: Array[Byte]): Array[Int] = {
    val held = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer
    val found = new Array[Int](held.remaining)
    held.get(found)
    found
  }
}

/** Leaves out masked rows.
  *
  * @param read the columns of a file's reader
  * @param numbers the index among them of the rows' numbers
  * @param surplus whether the query did not ask for the numbers
  */
private[pyhudi] final case class HudiMasking(read: StructType, numbers: Int, surplus: Boolean) {

  private def ordinals: Array[Int] =
    read.indices.filterNot(at => surplus && at == numbers).toArray

  def batches(
      reader: PartitionReader[ColumnarBatch],
      mask: Option[HudiMask]): PartitionReader[ColumnarBatch] =
    new PartitionReader[ColumnarBatch] {
      private val wanted = ordinals
      private var current: Option[ColumnarBatch] = None

      /** Goes on to a batch that has rows: nobody need expect an empty one. */
      override def next(): Boolean = {
        current = None
        while (current.isEmpty && reader.next())
          current = Some(less(reader.get())).filter(_.numRows > 0)
        current.isDefined
      }

      override def get(): ColumnarBatch = current.get

      private def less(batch: ColumnarBatch): ColumnarBatch = {
        val columns = wanted.map(batch.column)
        val picks = mask.flatMap(_.left(batch.column(numbers), batch.numRows))
        picks.foreach(rows => columns.foreach(HudiKeptRows.keep(_, rows)))
        new ColumnarBatch(columns, picks.fold(batch.numRows)(_.length))
      }

      override def close(): Unit = reader.close()
    }

  def rows(
      reader: PartitionReader[InternalRow],
      mask: Option[HudiMask]): PartitionReader[InternalRow] =
    new PartitionReader[InternalRow] {
      private val wanted = ordinals
      private val narrowed =
        if (surplus) Some(ProjectingInternalRow(StructType(wanted.map(read(_))), wanted.toSeq))
        else None

      override def next(): Boolean = {
        while (reader.next())
          if (!mask.exists(_.masks(reader.get().getLong(numbers)))) return true
        false
      }

      override def get(): InternalRow = {
        val row = reader.get()
        narrowed.fold(row) { fewer =>
          fewer.project(row)
          fewer
        }
      }

      override def close(): Unit = reader.close()
    }
}

/** Reads files one after the other, each by its own reader. */
private[pyhudi] final class HudiReadersInTurn[T](readers: Iterator[PartitionReader[T]])
    extends PartitionReader[T] {

  private var current: Option[PartitionReader[T]] = None

  override def next(): Boolean = {
    while (true) {
      if (current.exists(_.next())) return true
      close()
      if (!readers.hasNext) return false
      current = Some(readers.next())
    }
    false
  }

  override def get(): T = current.get.get()

  override def close(): Unit = {
    current.foreach(_.close())
    current = None
  }
}
