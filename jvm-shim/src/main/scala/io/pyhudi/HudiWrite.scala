package io.pyhudi

import scala.collection.JavaConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{AlwaysFalse, AlwaysTrue, Predicate}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.pyhudi.StatementPlans
import org.apache.spark.sql.sources.{Filter, InsertableRelation}

/** Which rows of the table an INSERT replaces. */
private[pyhudi] sealed abstract class Overwrite(val name: String)
private[pyhudi] object Overwrite {
  case object Nothing extends Overwrite("none")
  case object All extends Overwrite("all")

  /** Nothing, since the table is new. */
  case object New extends Overwrite("new")

  /** The table itself: REPLACE TABLE and `saveAsTable`. */
  case object Replace extends Overwrite("replace")
  final case class Matching(filters: Array[Filter]) extends Overwrite("filter")
}

/** Builds the write of one SQL INSERT, `writeTo` or `saveAsTable`.
  *
  * @param table the table, if it exists already: a MERGE may come as an INSERT into it
  * @param whole how to replace all rows
  */
private[pyhudi] class HudiWriteBuilder(
    target: HudiTarget,
    info: LogicalWriteInfo,
    table: Option[HudiCatalogTable] = None,
    whole: Overwrite = Overwrite.All)
    extends WriteBuilder
    with SupportsTruncate
    with SupportsOverwrite
    with SupportsDynamicOverwrite {

  private var write: Write = new HudiInsert(target, info, Overwrite.Nothing, table)

  override def truncate(): WriteBuilder = set(new HudiInsert(target, info, whole))

  override def overwrite(filters: Array[Filter]): WriteBuilder =
    set(new HudiInsert(target, info, Overwrite.Matching(filters)))

  override def canOverwrite(predicates: Array[Predicate]): Boolean =
    super.canOverwrite(predicates.map(HudiWriteBuilder.withFlags))

  override def overwrite(predicates: Array[Predicate]): WriteBuilder =
    super.overwrite(predicates.map(HudiWriteBuilder.withFlags))

  override def overwriteDynamicPartitions(): WriteBuilder =
    set(new HudiSpoolWrite(target, info, table))

  override def build(): Write = write

  private def set(chosen: Write): WriteBuilder = {
    write = chosen
    this
  }
}

private[pyhudi] object HudiWriteBuilder {

  /** A comparison of a column with the literals true and false. Spark hands them over as conditions
    * of their own, and then finds no `Filter` for the comparison.
    */
  def withFlags(predicate: Predicate): Predicate = predicate.children.headOption match {
    case Some(_: NamedReference) =>
      val children = predicate.children.map {
        case _: AlwaysTrue => Expressions.literal(true)
        case _: AlwaysFalse => Expressions.literal(false)
        case other => other
      }
      new Predicate(predicate.name, children)
    case _ => predicate
  }
}

/** Passes the whole DataFrame to Python. */
private[pyhudi] class HudiInsert(
    target: HudiTarget,
    info: LogicalWriteInfo,
    overwrite: Overwrite,
    table: Option[HudiCatalogTable] = None)
    extends V1Write {

  override def description(): String = s"pyhudi insert into ${target.table}"

  override def toInsertableRelation: InsertableRelation = (data: DataFrame, _: Boolean) => {
    val filters = overwrite match {
      case Overwrite.Matching(conditions) => HudiCatalogTable.conditions(conditions)
      case _ => Nil
    }
    val place = target.at(info.options().asCaseSensitiveMap().asScala.toMap)
    if (table.exists(StatementPlans.isMerge(data, _)))
      HudiOwnReads.write("insert_new", data, place, Nil)
    else {
      val rows = Seq("overwrite" -> overwrite.name, "filters" -> filters)
      HudiOwnReads.write("insert", data, place, rows)
    }
  }
}
