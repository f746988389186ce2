package org.apache.spark.sql.execution.pyhudi

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.RowToColumnConverter
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Rows as batches, for a scan whose other partitions have batches.
  *
  * It is in Spark's package to use `RowToColumnConverter`.
  */
final class RowBatches(rows: PartitionReader[InternalRow], schema: StructType)
    extends PartitionReader[ColumnarBatch] {

  private val converter = new RowToColumnConverter(schema)
  private val vectors: Array[WritableColumnVector] =
    OnHeapColumnVector.allocateColumns(RowBatches.rows, schema).toArray
  private val batch = new ColumnarBatch(vectors.toArray[ColumnVector])

  override def next(): Boolean = {
    vectors.foreach(_.reset())
    var count = 0
    while (count < RowBatches.rows && rows.next()) {
      converter.convert(rows.get(), vectors)
      count += 1
    }
    batch.setNumRows(count)
    count > 0
  }

  override def get(): ColumnarBatch = batch

  override def close(): Unit = {
    batch.close()
    rows.close()
  }
}

private object RowBatches {
  val rows = 4096
}
