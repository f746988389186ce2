package io.pyhudi

import scala.collection.JavaConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.execution.vectorized.WritableColumnVector
import org.apache.spark.sql.types._

/** Bytes of Avro records, read from `at` on. */
private[pyhudi] final class HudiOctets(val bytes: Array[Byte]) {

  var at: Int = 0

  /** A number in Avro's variable length. */
  def number(): Long = {
    var raw = 0L
    var shift = 0
    var octet = bytes(at)
    at += 1
    while (octet < 0) {
      raw |= (octet & 0x7fL) << shift
      shift += 7
      if (shift > 63) throw new IllegalArgumentException("a number has more than ten bytes")
      octet = bytes(at)
      at += 1
    }
    raw |= octet.toLong << shift
    (raw >>> 1) ^ -(raw & 1)
  }

  /** The length of a value that says it. */
  def length(): Int = {
    val found = number()
    if (found < 0 || found > bytes.length - at)
      throw new IllegalArgumentException("a value does not fit into its record")
    found.toInt
  }

  def fixed4(): Int = {
    val found = (bytes(at) & 0xff) | (bytes(at + 1) & 0xff) << 8 |
      (bytes(at + 2) & 0xff) << 16 | (bytes(at + 3) & 0xff) << 24
    at += 4
    found
  }

  def fixed8(): Long = {
    val low = fixed4() & 0xffffffffL
    low | fixed4().toLong << 32
  }
}

/** How a value lies in the bytes of a record; `pass` goes on to its end. */
private[pyhudi] sealed trait HudiAvroForm {
  def pass(from: HudiOctets): Unit
}

private[pyhudi] object HudiAvroForm {

  case object Null extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = ()
  }
  case object Flag extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = from.at += 1
  }
  case object Number extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = from.number()
  }
  case object Real4 extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = from.at += 4
  }
  case object Real8 extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = from.at += 8
  }
  case object Text extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = {
      val length = from.length()
      from.at += length
    }
  }
  final case class Fixed(size: Int) extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = from.at += size
  }
  final case class Union(branches: IndexedSeq[HudiAvroForm]) extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = branches(branch(from)).pass(from)

    /** The number of the value's branch. */
    def branch(from: HudiOctets): Int = {
      val number = from.number()
      if (number < 0 || number >= branches.length)
        throw new IllegalArgumentException("a union has no such branch")
      number.toInt
    }
  }

  /** Items or entries in blocks; one of `0` ends them. */
  final case class Repeated(parts: IndexedSeq[HudiAvroForm]) extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = {
      var count = from.number()
      while (count != 0) {
        if (count < 0) {
          val length = from.length()
          from.at += length
        } else {
          var left = count
          while (left > 0) {
            parts.foreach(_.pass(from))
            left -= 1
          }
        }
        count = from.number()
      }
    }
  }
  final case class Record(parts: IndexedSeq[HudiAvroForm]) extends HudiAvroForm {
    def pass(from: HudiOctets): Unit = parts.foreach(_.pass(from))
  }

  def parse(form: JsonNode): HudiAvroForm =
    if (form.isTextual) form.asText match {
      case "null" => Null
      case "boolean" => Flag
      case "number" => Number
      case "float" => Real4
      case "double" => Real8
      case "text" => Text
    }
    else {
      def parts: IndexedSeq[HudiAvroForm] =
        form.elements().asScala.drop(1).map(parse).toIndexedSeq
      form.get(0).asText match {
        case "fixed" => Fixed(form.get(1).asInt)
        case "union" => Union(parts)
        case "array" => Repeated(parts)
        case "map" => Repeated(Text +: parts)
        case "record" => Record(parts)
      }
    }
}

/** A field of a block's records.
  *
  * @param column the column that takes it, -1 if none does
  * @param scale what its numbers are multiplied by
  */
private[pyhudi] final case class HudiAvroField(column: Int, form: HudiAvroForm, scale: Long)

private[pyhudi] object HudiAvroField {

  /** Fields as Python describes them (`format/avro_forms.py`). */
  def parse(text: String): IndexedSeq[HudiAvroField] =
    Json.parse(text).elements().asScala.map { each =>
      HudiAvroField(each.get(0).asInt, HudiAvroForm.parse(each.get(1)), each.get(2).asLong)
    }.toIndexedSeq
}

/** Puts the next value of a record into a row of a column. */
private[pyhudi] trait HudiAvroPut {
  def put(from: HudiOctets, to: WritableColumnVector, row: Int): Unit
}

private[pyhudi] object HudiAvroPut {

  import HudiAvroForm._

  /** Puts values of `field` into a column of `kind`, to which Python has found it to fit. */
  def of(field: HudiAvroField, kind: DataType): HudiAvroPut = of(field.form, kind, field.scale)

  private def of(form: HudiAvroForm, kind: DataType, scale: Long): HudiAvroPut =
    (form, kind) match {
      case (union @ Union(branches), _) =>
        val puts = branches.map {
          case Null => nothing
          case some => of(some, kind, scale)
        }
        (from, to, row) => puts(union.branch(from)).put(from, to, row)
      case (Flag, BooleanType) => (from, to, row) => {
          to.putBoolean(row, from.bytes(from.at) != 0)
          from.at += 1
        }
      case (Number, IntegerType | DateType) =>
        (from, to, row) => to.putInt(row, from.number().toInt)
      case (Number, LongType | TimestampType | TimestampNTZType) =>
        (from, to, row) => to.putLong(row, from.number() * scale)
      case (Real4, FloatType) =>
        (from, to, row) => to.putFloat(row, java.lang.Float.intBitsToFloat(from.fixed4()))
      case (Real8, DoubleType) =>
        (from, to, row) => to.putDouble(row, java.lang.Double.longBitsToDouble(from.fixed8()))
      case (Text, decimal: DecimalType) => (from, to, row) => {
          val length = from.length()
          putDecimal(from, length, decimal, to, row)
        }
      case (Fixed(size), decimal: DecimalType) =>
        (from, to, row) => putDecimal(from, size, decimal, to, row)
      case (Text, _: StringType | BinaryType) => (from, to, row) => {
          val length = from.length()
          to.putByteArray(row, from.bytes, from.at, length)
          from.at += length
        }
      case _ => throw new IllegalArgumentException(s"A value of $form is none of ${kind.sql}")
    }

  private val nothing: HudiAvroPut = (_, to, row) => to.putNull(row)

  /** A big-endian number of `size` bytes, as Spark's vectors have it by its precision. */
  private def putDecimal(
      from: HudiOctets,
      size: Int,
      kind: DecimalType,
      to: WritableColumnVector,
      row: Int): Unit = {
    if (kind.precision > Decimal.MAX_LONG_DIGITS) to.putByteArray(row, from.bytes, from.at, size)
    else {
      var value = if (size > 0 && from.bytes(from.at) < 0) -1L else 0L
      var at = from.at
      while (at < from.at + size) {
        value = value << 8 | (from.bytes(at) & 0xff)
        at += 1
      }
      if (kind.precision <= Decimal.MAX_INT_DIGITS) to.putInt(row, value.toInt)
      else to.putLong(row, value)
    }
    from.at += size
  }
}
