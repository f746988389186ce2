package io.pyhudi

import io.pyhudi.Protocol.{AggregateFunction, Wanted}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.expressions.{Expression, NamedReference}
import org.apache.spark.sql.connector.expressions.aggregate.{
  AggregateFunc,
  Aggregation,
  Count,
  CountStar,
  Max,
  Min
}
import org.apache.spark.sql.connector.read.LocalScan
import org.apache.spark.sql.types._

/** An aggregate that footers may be able to answer.
  *
  * @param column none for the number of rows
  */
private[pyhudi] final case class HudiAggregate(
    function: AggregateFunction,
    column: Option[String],
    dataType: DataType) {

  def question: Wanted = Wanted(function, column)

  /** Python's whole number in Spark's internal form. */
  def internal(value: Long): Any = dataType match {
    case ByteType => value.toByte
    case ShortType => value.toShort
    case IntegerType | DateType => value.toInt
    case _ => value
  }
}

private[pyhudi] object HudiAggregates {

  /** The aggregates as questions; none if one of them always needs a scan. */
  def of(aggregation: Aggregation, schema: StructType): Seq[HudiAggregate] = {
    val found = aggregation.aggregateExpressions().toSeq.map(one(_, schema))
    if (aggregation.groupByExpressions().isEmpty && found.forall(_.isDefined)) found.flatten
    else Nil
  }

  private def one(function: AggregateFunc, schema: StructType): Option[HudiAggregate] =
    function match {
      case _: CountStar => Some(HudiAggregate(AggregateFunction.Rows, None, LongType))
      case count: Count if !count.isDistinct =>
        field(count.column(), schema)
          .map(f => HudiAggregate(AggregateFunction.Count, Some(f.name), LongType))
      case least: Min => bound(AggregateFunction.Min, least.column(), schema)
      case greatest: Max => bound(AggregateFunction.Max, greatest.column(), schema)
      case _ => None
    }

  private def bound(
      function: AggregateFunction,
      of: Expression,
      schema: StructType): Option[HudiAggregate] =
    field(of, schema).map(f => HudiAggregate(function, Some(f.name), f.dataType)).filter {
      _.dataType match {
        case ByteType | ShortType | IntegerType | LongType => true
        case DateType | TimestampType | TimestampNTZType => true
        case _ => false
      }
    }

  private def field(column: Expression, schema: StructType): Option[StructField] = column match {
    case named: NamedReference if named.fieldNames.length == 1 =>
      schema.fields.find(_.name == named.fieldNames.head)
    case _ => None
  }
}

/** Aggregates answered from the table's metadata and the footers of its files: no job. */
private[pyhudi] class HudiAnswerScan(
    request: HudiScanRequest,
    aggregates: Seq[HudiAggregate],
    values: Seq[Option[Long]])
    extends LocalScan {

  override def rows(): Array[InternalRow] = Array(
    InternalRow.fromSeq(aggregates.zip(values).map { case (aggregate, value) =>
      value.map(aggregate.internal).orNull
    }))

  override def readSchema(): StructType =
    StructType(aggregates.zipWithIndex.map { case (aggregate, at) =>
      StructField(s"${aggregate.function.json}_$at", aggregate.dataType)
    })

  override def description(): String =
    s"${request.description}, ${aggregates.map(_.function.json).mkString(", ")} from metadata"
}
