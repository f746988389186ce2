package org.apache.spark.sql.execution.pyhudi

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  Cast,
  EvalMode,
  Expression,
  UnsafeProjection
}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.RowToColumnConverter
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Casts the columns that a file holds in an older type to the table's type, batch by batch.
  *
  * Other columns pass through unchanged. It is in Spark's package to use `RowToColumnConverter`.
  *
  * @param held the columns as the reader gives them, constants included
  * @param wanted the same columns in the table's types
  */
final case class ColumnWidening(
    held: StructType,
    wanted: StructType,
    timeZone: String) {

  private val changed: Array[Int] =
    held.indices.filter(i => held(i).dataType != wanted(i).dataType).toArray

  /** A reader of batches whose changed columns are cast. */
  def batches(reader: PartitionReader[ColumnarBatch]): PartitionReader[ColumnarBatch] =
    new PartitionReader[ColumnarBatch] {
      private val target = StructType(changed.map(i => wanted(i).copy(nullable = true)))
      private val project = UnsafeProjection.create(changed.toIndexedSeq.map(casted))
      private val converter = new RowToColumnConverter(target)
      private var vectors = Array.empty[WritableColumnVector]
      private var capacity = 0

      override def next(): Boolean = reader.next()

      override def get(): ColumnarBatch = {
        val batch = reader.get()
        prepare(batch.numRows)
        val rows = batch.rowIterator()
        while (rows.hasNext) converter.convert(project(rows.next()), vectors)
        val columns = Array.tabulate[ColumnVector](batch.numCols)(batch.column)
        changed.indices.foreach(i => columns(changed(i)) = vectors(i))
        new ColumnarBatch(columns, batch.numRows)
      }

      private def prepare(rows: Int): Unit =
        if (rows > capacity) {
          vectors.foreach(_.close())
          vectors = OnHeapColumnVector.allocateColumns(rows, target).toArray
          capacity = rows
        } else {
          vectors.foreach(_.reset())
        }

      override def close(): Unit = {
        vectors.foreach(_.close())
        reader.close()
      }
    }

  /** A reader of rows whose changed columns are cast, for schemas that have no batches. */
  def rows(reader: PartitionReader[InternalRow]): PartitionReader[InternalRow] =
    new PartitionReader[InternalRow] {
      private val project = UnsafeProjection.create(held.indices.map(casted))

      override def next(): Boolean = reader.next()
      override def get(): InternalRow = project(reader.get())
      override def close(): Unit = reader.close()
    }

  private def casted(column: Int): Expression = {
    val source = BoundReference(column, held(column).dataType, nullable = true)
    val target = wanted(column).dataType
    if (source.dataType == target) source
    else Cast(source, target, Some(timeZone), EvalMode.LEGACY)
  }
}

object ColumnWidening {

  /** The casts from `held` to `wanted`, or `None` if no column's type differs. */
  def between(
      held: StructType,
      wanted: StructType,
      constants: StructType): Option[ColumnWidening] = {
    def types(s: StructType): Seq[Any] = s.map((f: StructField) => f.dataType)
    if (types(held) == types(wanted)) None
    else Some(
      ColumnWidening(
        StructType(held.fields ++ constants.fields),
        StructType(wanted.fields ++ constants.fields),
        SQLConf.get.sessionLocalTimeZone))
  }
}
