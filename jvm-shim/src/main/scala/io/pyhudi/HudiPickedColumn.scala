package io.pyhudi

import org.apache.spark.sql.types.Decimal
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.types.UTF8String

/** Some rows of a column, without a copy: row `i` is row `picks(i)` of `inner`. */
private[pyhudi] final class HudiPickedColumn(inner: ColumnVector, picks: Array[Int])
    extends ColumnVector(inner.dataType) {

  /** The reader of the file owns the column. */
  override def close(): Unit = ()

  override def hasNull: Boolean = inner.hasNull
  override def numNulls: Int = picks.count(inner.isNullAt)
  override def isNullAt(row: Int): Boolean = inner.isNullAt(picks(row))
  override def getBoolean(row: Int): Boolean = inner.getBoolean(picks(row))
  override def getByte(row: Int): Byte = inner.getByte(picks(row))
  override def getShort(row: Int): Short = inner.getShort(picks(row))
  override def getInt(row: Int): Int = inner.getInt(picks(row))
  override def getLong(row: Int): Long = inner.getLong(picks(row))
  override def getFloat(row: Int): Float = inner.getFloat(picks(row))
  override def getDouble(row: Int): Double = inner.getDouble(picks(row))
  override def getArray(row: Int): ColumnarArray = inner.getArray(picks(row))
  override def getMap(row: Int): ColumnarMap = inner.getMap(picks(row))
  override def getUTF8String(row: Int): UTF8String = inner.getUTF8String(picks(row))
  override def getBinary(row: Int): Array[Byte] = inner.getBinary(picks(row))
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal =
    inner.getDecimal(picks(row), precision, scale)

  /** A field of a struct, whose rows are those of the struct. */
  override def getChild(ordinal: Int): ColumnVector =
    new HudiPickedColumn(inner.getChild(ordinal), picks)
}
