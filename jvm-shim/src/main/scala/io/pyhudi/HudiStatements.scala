package io.pyhudi

import org.apache.spark.sql.catalyst.analysis.{ResolvedPartitionSpec, ResolvedTable}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.connector.catalog.TableChange
import org.apache.spark.sql.execution.command.CreateTableLikeCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Statements on pyhudi's tables that Spark's own rules refuse, or answer in another form. */
private[pyhudi] object HudiStatements extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case insert: InsertIntoStatement =>
      insert.table match {
        case table: DataSourceV2Relation
            if table.table.isInstanceOf[HudiCatalogTable] && isShort(insert, table) =>
          whole(insert, table)
        case _ => insert
      }
    case HudiRefusedCall(failure) => throw failure
    case changes: HudiTableChanges if changes.child.resolved => changes.relation
    case alter: AlterTableCommand if alter.resolved =>
      alter.table match {
        case ResolvedTable(catalog, ident, table: HudiCatalogTable, _)
            if alter.changes.exists(isCast(table, _)) =>
          HudiAlter(catalog, ident, alter.changes)
        case _ => alter
      }
    case repair: RepairTable => repair.child match {
        case ResolvedTable(_, _, table: HudiCatalogTable, _) =>
          HudiRepair(table, repair.enableAddPartitions, repair.enableDropPartitions)
        case _ => repair
      }
    case recover: RecoverPartitions => recover.child match {
        case ResolvedTable(_, _, table: HudiCatalogTable, _) =>
          HudiRepair(table, add = true, drop = false)
        case _ => recover
      }
    case like: CreateTableLikeCommand if isHudi(like) => HudiTableLike(like)
    case show: ShowColumns =>
      show.child match {
        case ResolvedTable(_, ident, table: HudiCatalogTable, _)
            if show.namespace.forall(_.lastOption == ident.namespace.lastOption) =>
          HudiShowColumns(table)
        case _ => show
      }
    case show: ShowPartitions =>
      (show.table, show.pattern) match {
        case (ResolvedTable(_, _, table: HudiCatalogTable, _), None) =>
          HudiShowPartitions(table, None)
        case (
              ResolvedTable(_, _, table: HudiCatalogTable, _),
              Some(spec: ResolvedPartitionSpec)) => HudiShowPartitions(table, Some(spec))
        case _ => show
      }
  }

  /** Whether the new table is one of pyhudi's, by USING or since the other one is. */
  private def isHudi(like: CreateTableLikeCommand): Boolean = {
    def other = Compat.activeSession.sessionState.catalog
      .getTempViewOrPermanentTableMetadata(like.sourceTable).provider
    like.provider.orElse(other).exists(HudiDataSource.isNamedBy)
  }

  /** Whether a column gets a type that Spark allows no table, such as a date for a text. */
  private def isCast(table: HudiCatalogTable, change: TableChange): Boolean = change match {
    case retype: TableChange.UpdateColumnType if retype.fieldNames.length == 1 =>
      table.schema.exists { column =>
        same(column.name, retype.fieldNames.head) &&
        !Cast.canUpCast(column.dataType, retype.newDataType)
      }
    case _ => false
  }

  // ---- INSERT with some of the columns

  private def same(one: String, other: String): Boolean = Compat.conf.resolver(one, other)

  private def named(insert: InsertIntoStatement): Seq[String] =
    insert.userSpecifiedCols ++ insert.partitionSpec.keys

  private def missing(insert: InsertIntoStatement, table: DataSourceV2Relation) =
    table.output.filterNot(column => named(insert).exists(same(_, column.name)))

  /** Whether the statement names some columns of the table, all of them right, and not others. */
  private def isShort(insert: InsertIntoStatement, table: DataSourceV2Relation): Boolean =
    insert.userSpecifiedCols.nonEmpty && insert.query.resolved &&
      insert.query.output.size == insert.userSpecifiedCols.size &&
      insert.userSpecifiedCols.forall(name => table.output.exists(c => same(name, c.name))) &&
      missing(insert, table).nonEmpty

  /** The statement with the defaults of the columns that it leaves out; null without one. */
  private def whole(
      insert: InsertIntoStatement,
      table: DataSourceV2Relation): InsertIntoStatement = {
    val others = missing(insert, table).map(column => Alias(default(column), column.name)())
    insert.copy(
      userSpecifiedCols = insert.userSpecifiedCols ++ others.map(_.name),
      query = Project(insert.query.output ++ others, insert.query)
    )
  }

  private val defaultKey = ResolveDefaultColumns.CURRENT_DEFAULT_COLUMN_METADATA_KEY

  private def default(column: Attribute): Expression =
    if (column.metadata.contains(defaultKey)) {
      val text = column.metadata.getString(defaultKey)
      Cast(Compat.activeSession.sessionState.sqlParser.parseExpression(text), column.dataType)
    } else Literal(null, column.dataType)
}
