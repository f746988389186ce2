package io.pyhudi

import java.math.{BigDecimal => JavaDecimal}
import java.sql.{Date, Timestamp}
import java.time.{Instant, LocalDate, LocalDateTime}
import java.util.Base64

import io.pyhudi.Protocol.Comparison._
import io.pyhudi.Protocol.TextPart._
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.sources._

/** Spark's filters in the bridge's form, from which Python prunes partitions and files.
  *
  * A filter without a class there becomes `Unknown`, which keeps every file.
  */
private[pyhudi] object HudiFilters {

  def told(filters: Seq[Filter]): Seq[Protocol.Filter] = filters.map(told)

  def told(filter: Filter): Protocol.Filter = filter match {
    case EqualTo(column, value) => comparison(Equal, column, value)
    case EqualNullSafe(column, value) => comparison(Same, column, value)
    case GreaterThan(column, value) => comparison(Greater, column, value)
    case GreaterThanOrEqual(column, value) => comparison(AtLeast, column, value)
    case LessThan(column, value) => comparison(Less, column, value)
    case LessThanOrEqual(column, value) => comparison(AtMost, column, value)
    case In(column, values) => membership(column, values)
    case IsNull(column) => Protocol.IsNull(column)
    case IsNotNull(column) => Protocol.IsNotNull(column)
    case _: And => Protocol.AllOf(told(conjuncts(filter)))
    case _: Or => Protocol.AnyOf(told(disjuncts(filter)))
    case Not(child) => Protocol.Not(told(child))
    case StringStartsWith(column, value) => Protocol.HasText(Start, column, value)
    case StringEndsWith(column, value) => Protocol.HasText(End, column, value)
    case StringContains(column, value) => Protocol.HasText(Anywhere, column, value)
    case _ => Protocol.Unknown()
  }

  private def conjuncts(filter: Filter): List[Filter] = filter match {
    case And(left, right) => conjuncts(left) ::: conjuncts(right)
    case other => List(other)
  }

  private def disjuncts(filter: Filter): List[Filter] = filter match {
    case Or(left, right) => disjuncts(left) ::: disjuncts(right)
    case other => List(other)
  }

  private def comparison(by: Protocol.Comparison, column: String, value: Any): Protocol.Filter =
    literal(value).fold[Protocol.Filter](Protocol.Unknown())(Protocol.Compare(by, column, _))

  private def membership(column: String, values: Array[Any]): Protocol.Filter = {
    val literals = values.toList.map(literal)
    if (literals.forall(_.isDefined)) Protocol.Among(column, literals.flatten)
    else Protocol.Unknown()
  }

  /** `None` for types that have no form of their own. */
  private def literal(value: Any): Option[Protocol.Literal] = Option(value) match {
    case None => Some(Protocol.Null())
    case Some(some) => form.lift(some)
  }

  /** Whether a literal may stand for another value. Spark hands dates and times to filters in the
    * form of `java.sql`, which has no 5th to 14th of October 1582, and no day that the machine's
    * time zone left out. Its times before 1900 are those of the zone's older rules.
    */
  def isVague(value: Any): Boolean = value match {
    case day: Date =>
      val found = DateTimeUtils.fromJavaDate(day)
      (found - 1 to found + 1).exists { other =>
        (DateTimeUtils.toJavaDate(other) == day) != (other == found)
      }
    case moment: Timestamp =>
      val found = DateTimeUtils.fromJavaTimestamp(moment)
      shift(found - 2 * microsPerDay) != shift(found)
    case _ => false
  }

  /** The milliseconds between a time and its form in `java.sql`. Where they change, two times have
    * one form: that of the later one, as no zone moved its clocks by more than a day.
    */
  private def shift(micros: Long): Long =
    DateTimeUtils.toJavaTimestamp(micros).getTime - Math.floorDiv(micros, 1000L)

  private val microsPerDay = 86400L * 1000 * 1000

  private val form: PartialFunction[Any, Protocol.Literal] = {
    case text: String => Protocol.Text(text)
    case flag: Boolean => Protocol.Flag(flag)
    case number: Byte => Protocol.Whole(number)
    case number: Short => Protocol.Whole(number)
    case number: Int => Protocol.Whole(number)
    case number: Long => Protocol.Whole(number)
    case number: Float => Protocol.Real(number.toDouble.toString)
    case number: Double => Protocol.Real(number.toString)
    case decimal: JavaDecimal => Protocol.Exact(decimal.toPlainString)
    case day: Date if !isVague(day) => Protocol.Day(DateTimeUtils.fromJavaDate(day))
    case day: LocalDate => Protocol.Day(day.toEpochDay)
    case moment: Timestamp if !isVague(moment) =>
      Protocol.Moment(DateTimeUtils.fromJavaTimestamp(moment))
    case moment: Instant => Protocol.Moment(DateTimeUtils.instantToMicros(moment))
    case local: LocalDateTime =>
      Protocol.LocalMoment(DateTimeUtils.localDateTimeToMicros(local))
    case bytes: Array[Byte] => Protocol.Bytes(Base64.getEncoder.encodeToString(bytes))
  }
}
