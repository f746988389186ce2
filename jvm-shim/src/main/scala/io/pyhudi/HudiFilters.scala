package io.pyhudi

import java.math.{BigDecimal => JavaDecimal}
import java.sql.{Date, Timestamp}
import java.time.{Instant, LocalDate, LocalDateTime}
import java.util.Base64

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.sources._

/** Spark's filters as JSON objects, from which Python prunes partitions and files.
  *
  * A filter without a JSON form becomes `{"op": "unknown"}`, which keeps every file.
  */
private[pyhudi] object HudiFilters {

  type Node = Map[String, Any]

  private val unknown: Node = Map("op" -> "unknown")

  def toJson(filter: Filter): Node = filter match {
    case EqualTo(column, value) => comparison("=", column, value)
    case EqualNullSafe(column, value) => comparison("<=>", column, value)
    case GreaterThan(column, value) => comparison(">", column, value)
    case GreaterThanOrEqual(column, value) => comparison(">=", column, value)
    case LessThan(column, value) => comparison("<", column, value)
    case LessThanOrEqual(column, value) => comparison("<=", column, value)
    case In(column, values) => membership(column, values)
    case IsNull(column) => Map("op" -> "isnull", "column" -> column)
    case IsNotNull(column) => Map("op" -> "isnotnull", "column" -> column)
    case And(left, right) => Map("op" -> "and", "left" -> toJson(left), "right" -> toJson(right))
    case Or(left, right) => Map("op" -> "or", "left" -> toJson(left), "right" -> toJson(right))
    case Not(child) => Map("op" -> "not", "child" -> toJson(child))
    case StringStartsWith(column, value) => comparison("startswith", column, value)
    case StringEndsWith(column, value) => comparison("endswith", column, value)
    case StringContains(column, value) => comparison("contains", column, value)
    case _ => unknown
  }

  private def comparison(op: String, column: String, value: Any): Node =
    literal(value).fold(unknown) { case (_, plain) =>
      Map("op" -> op, "column" -> column, "value" -> plain)
    }

  private def membership(column: String, values: Array[Any]): Node = {
    val literals = values.toSeq.map(literal)
    val kinds = literals.flatten.map(_._1).filter(_ != "null").distinct
    if (literals.forall(_.isDefined) && kinds.size <= 1) {
      Map("op" -> "in", "column" -> column, "values" -> literals.flatten.map(_._2))
    } else {
      unknown
    }
  }

  /** Type name and JSON form of a literal; `None` for types that JSON should not carry. */
  private def literal(value: Any): Option[(String, Any)] = value match {
    case null => Some("null" -> null)
    case text: String => Some("string" -> text)
    case flag: Boolean => Some("boolean" -> flag)
    case number: Byte => Some("byte" -> number)
    case number: Short => Some("short" -> number)
    case number: Int => Some("int" -> number)
    case number: Long => Some("long" -> number)
    case number: Float => Some("float" -> number)
    case number: Double => Some("double" -> number)
    case decimal: JavaDecimal => Some("decimal" -> decimal.toPlainString)
    case day: Date =>
      Some("date" -> LocalDate.ofEpochDay(DateTimeUtils.fromJavaDate(day).toLong).toString)
    case day: LocalDate => Some("date" -> day.toString)
    case moment: Timestamp => Some("timestamp" -> DateTimeUtils.fromJavaTimestamp(moment))
    case moment: Instant => Some("timestamp" -> DateTimeUtils.instantToMicros(moment))
    case local: LocalDateTime =>
      Some("timestamp_ntz" -> DateTimeUtils.localDateTimeToMicros(local))
    case bytes: Array[Byte] => Some("binary" -> Base64.getEncoder.encodeToString(bytes))
    case _ => None
  }
}
