package io.pyhudi

import org.apache.spark.sql.execution.vectorized.WritableColumnVector
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnVector

/** Moves the rows that stay to the begin of a column, in place: generated code then meets one class
  * of vector, whose calls the compiler inlines. A column around the column costs a call for each
  * value. The reader of the file fills its vectors anew for the next batch.
  */
private[pyhudi] object HudiKeptRows {

  /** Row `i` becomes what row `picks(i)` was; `picks` are ascending. */
  def keep(column: ColumnVector, picks: Array[Int]): Unit = {
    var first = 0
    while (first < picks.length && picks(first) == first) first += 1
    if (first < picks.length) keep(column, picks, first)
  }

  private def keep(column: ColumnVector, picks: Array[Int], first: Int): Unit = column match {
    case vector: WritableColumnVector =>
      if (!vector.isAllNull) {
        if (vector.hasNull) keepNulls(vector, picks, first)
        if (vector.hasDictionary) keepInts(vector.getDictionaryIds, picks, first)
        else keepValues(vector, picks, first)
      }
    case _ => () // of a partition: the same value in all rows
  }

  private def keepNulls(vector: WritableColumnVector, picks: Array[Int], first: Int): Unit = {
    var row = first
    while (row < picks.length) {
      if (vector.isNullAt(picks(row))) vector.putNull(row) else vector.putNotNull(row)
      row += 1
    }
  }

  private def keepValues(vector: WritableColumnVector, picks: Array[Int], first: Int): Unit =
    vector.dataType match {
      case IntegerType | DateType => keepInts(vector, picks, first)
      case LongType | TimestampType | TimestampNTZType => keepLongs(vector, picks, first)
      case DoubleType => keepDoubles(vector, picks, first)
      case decimal: DecimalType if decimal.precision <= Decimal.MAX_INT_DIGITS =>
        keepInts(vector, picks, first)
      case decimal: DecimalType if decimal.precision <= Decimal.MAX_LONG_DIGITS =>
        keepLongs(vector, picks, first)
      case _: StringType | BinaryType | _: DecimalType | _: ArrayType | _: MapType =>
        keepPlaces(vector, picks, first)
      case struct: StructType =>
        struct.indices.foreach(at => keep(vector.getChild(at), picks, first))
      case BooleanType =>
        each(picks, first)((to, from) => vector.putBoolean(to, vector.getBoolean(from)))
      case ByteType => each(picks, first)((to, from) => vector.putByte(to, vector.getByte(from)))
      case ShortType => each(picks, first)((to, from) => vector.putShort(to, vector.getShort(from)))
      case FloatType => each(picks, first)((to, from) => vector.putFloat(to, vector.getFloat(from)))
      case other => throw new IllegalStateException(s"No row of ${other.sql} can be left out.")
    }

  // A loop for each of the frequent types: a shared one would call a function for each value.

  private def keepInts(vector: WritableColumnVector, picks: Array[Int], first: Int): Unit = {
    var row = first
    while (row < picks.length) {
      vector.putInt(row, vector.getInt(picks(row)))
      row += 1
    }
  }

  private def keepLongs(vector: WritableColumnVector, picks: Array[Int], first: Int): Unit = {
    var row = first
    while (row < picks.length) {
      vector.putLong(row, vector.getLong(picks(row)))
      row += 1
    }
  }

  private def keepDoubles(vector: WritableColumnVector, picks: Array[Int], first: Int): Unit = {
    var row = first
    while (row < picks.length) {
      vector.putDouble(row, vector.getDouble(picks(row)))
      row += 1
    }
  }

  /** Where the bytes or the elements of each value are; these stay where they are. */
  private def keepPlaces(vector: WritableColumnVector, picks: Array[Int], first: Int): Unit = {
    var row = first
    while (row < picks.length) {
      val from = picks(row)
      vector.putArray(row, vector.getArrayOffset(from), vector.getArrayLength(from))
      row += 1
    }
  }

  private def each(picks: Array[Int], first: Int)(move: (Int, Int) => Unit): Unit = {
    var row = first
    while (row < picks.length) {
      move(row, picks(row))
      row += 1
    }
  }
}
