package io.pyhudi

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, SubqueryAlias, UnaryNode}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `hudi_table_changes(table, 'latest_state' or 'cdc', begin [, end])`, Hudi's incremental read in
  * SQL.
  *
  * It is a table whose relation gets the options of an incremental read. They are set when the
  * table is known, not before: Spark remembers the relations of a query by their names alone.
  */
private[pyhudi] final case class HudiTableChanges(
    child: LogicalPlan,
    options: CaseInsensitiveStringMap)
    extends UnaryNode {

  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan =
    copy(child = newChild)

  /** The relation that takes its place. */
  def relation: LogicalPlan = child match {
    case named @ SubqueryAlias(_, table: DataSourceV2Relation) =>
      named.copy(child = incremental(table))
    case table: DataSourceV2Relation => incremental(table)
    case other => throw HudiTableChanges.refused(s"'${other.nodeName}' is not a table of pyhudi")
  }

  private def incremental(found: DataSourceV2Relation): LogicalPlan = found.table match {
    case table: HudiTable =>
      val asked = table.under(options)
      if (asked.snapshot.changes)
        DataSourceV2Relation.create(asked, found.catalog, found.identifier, options)
      else found.copy(options = options)
    case other => throw HudiTableChanges.refused(s"'${other.name}' is not a table of pyhudi")
  }
}

/** A call that cannot be served. The rule throws its failure: what a function itself throws gets
  * a position from Spark, and is then another class.
  */
private[pyhudi] final case class HudiRefusedCall(failure: HudiAnalysisException) extends LeafNode {

  override def output: Seq[Attribute] = Nil

  override lazy val resolved: Boolean = false
}

private[pyhudi] object HudiTableChanges {

  private val function = "hudi_table_changes"

  /** For `SparkSessionExtensions.injectTableFunction`. */
  val description: (FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan) = (
    FunctionIdentifier(function),
    new ExpressionInfo(getClass.getName.stripSuffix("$"), null, function),
    of)

  private def of(arguments: Seq[Expression]): LogicalPlan =
    try arguments.map(text) match {
        case Seq(table, form, begin) => of(table, form, begin, None)
        case Seq(table, form, begin, end) => of(table, form, begin, Some(end))
        case other => throw refused(s"it has ${other.size} arguments")
      }
    catch { case failure: HudiAnalysisException => HudiRefusedCall(failure) }

  private def of(table: String, form: String, begin: String, end: Option[String]): LogicalPlan = {
    val options = Map(
      "hoodie.datasource.query.type" -> "incremental",
      "hoodie.datasource.query.incremental.format" -> form,
      "hoodie.datasource.read.begin.instanttime" -> begin) ++
      end.map("hoodie.datasource.read.end.instanttime" -> _)
    val state = Compat.activeSession.sessionState
    val relation =
      if (table.contains("/")) atPath(table)
      else UnresolvedRelation(state.sqlParser.parseMultipartIdentifier(table))
    HudiTableChanges(relation, new CaseInsensitiveStringMap(options.asJava))
  }

  /** The table at a path. By its name Spark would take it for a file of a source. */
  private def atPath(path: String): LogicalPlan = {
    val catalog = Compat.activeSession.sessionState.catalogManager.catalog(HudiDataSource.provider)
    val ident = Identifier.of(Array.empty, path)
    DataSourceV2Relation.create(
      catalog.asInstanceOf[TableCatalog].loadTable(ident),
      Some(catalog),
      Some(ident))
  }

  private def text(argument: Expression): String =
    Option(argument).filter(_.foldable).flatMap(each => Option(each.eval())).map(_.toString)
      .getOrElse(throw refused(s"the argument ${argument.sql} is null, or no constant"))

  private def refused(why: String): HudiAnalysisException = new HudiAnalysisException(
    s"[CONFIG_ERROR] $function cannot be called like this: $why. Write $function('db.trips', " +
      "'latest_state', 'earliest') or 'cdc', with an instant or a time for the begin, and as a " +
      "fourth argument for the end.",
    "ConfigError"
  )
}
