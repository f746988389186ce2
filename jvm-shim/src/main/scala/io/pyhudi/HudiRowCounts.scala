package io.pyhudi

import org.apache.spark.sql.catalyst.analysis.{
  RewriteDeleteFromTable,
  RewriteMergeIntoTable,
  RewriteUpdateTable
}
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeReference,
  Expression,
  Literal,
  SubqueryExpression
}
import org.apache.spark.sql.catalyst.plans.LeftAnti
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.write.RowLevelOperation
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation
}
import org.apache.spark.sql.pyhudi.StatementPlans
import org.apache.spark.sql.types.LongType

/** The columns that UPDATE, DELETE and MERGE answer: numbers of rows, by Delta's names for them.
  *
  * Spark's own commands for these statements have no columns. What a statement answers is fixed
  * when it is analyzed, so until then a command with columns stands for Spark's (`Announced`).
  * Before Spark optimizes the statement, its own command takes this place again (`Restored`), and
  * is planned, run and shown as without the columns.
  */
private[pyhudi] object HudiRowCounts {

  object Announced extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
      case statement: Command if statement.resolved => announced(statement)
    }
  }

  object Restored extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
      case counted: HudiCounted => counted.restored
    }
  }

  private def announced(statement: Command): LogicalPlan = {
    val own = repaired(rewritten(statement))
    verb(own).fold[LogicalPlan](statement) { found =>
      HudiCounted(own, columns(found), own.children.head)
    }
  }

  /** Without the condition by which a command skips files, if Spark has broken it.
    *
    * Since 4.2 Spark's rewriting of a MERGE forgets there that a hidden column of ON is the
    * target's, and the statement would fail. The rows are those of the query, which has the column.
    */
  private def repaired(command: LogicalPlan): LogicalPlan = command match {
    case delta: WriteDelta =>
      delta.mapExpressions(each => if (missesColumns(each)) Literal.TrueLiteral else each)
    case other => other
  }

  private def missesColumns(condition: Expression): Boolean = condition.exists {
    case subquery: SubqueryExpression => subquery.plan.exists(_.missingInput.nonEmpty)
    case _ => false
  }

  /** The statement as Spark runs it; its older lines would rewrite it only after this rule. */
  private def rewritten(statement: Command): LogicalPlan = statement match {
    case delete: DeleteFromTable if isHudi(delete.table) =>
      RewriteDeleteFromTable(HudiPaddedColumns.moved(delete, delete.table))
    case update: UpdateTable if isHudi(update.table) =>
      RewriteUpdateTable(HudiPaddedColumns.moved(update, update.table))
    case merge: MergeIntoTable if isHudi(merge.targetTable) =>
      RewriteMergeIntoTable(HudiPaddedColumns.moved(merge, merge.targetTable))
    case other => other
  }

  /** What `command` of Spark does to rows of a Hudi table; none if it answers no numbers. */
  def verb(command: LogicalPlan): Option[RowLevelOperation.Command] = command match {
    case delta: WriteDelta =>
      StatementPlans.operation(delta.table).collect {
        case changes: HudiRowChanges => changes.command
      }
    case insert: V2WriteCommand if isHudi(insert.table) && isMerge(insert) =>
      Some(RowLevelOperation.Command.MERGE)
    case delete: DeleteFromTable if isHudi(delete.table) =>
      Some(RowLevelOperation.Command.DELETE)
    case delete: DeleteFromTableWithFilters if isHudi(delete.table) =>
      Some(RowLevelOperation.Command.DELETE)
    case _ => None
  }

  private def isHudi(plan: LogicalPlan): Boolean = plan.exists {
    case relation: DataSourceV2Relation => relation.table.isInstanceOf[HudiCatalogTable]
    case scan: DataSourceV2ScanRelation => scan.relation.table.isInstanceOf[HudiCatalogTable]
    case _ => false
  }

  /** Whether the rows are those of a MERGE that only inserts. Spark has a command for it since 4.2.
    * Before, its rows have no match in the very relation that gets them; an INSERT that reads its
    * table has a second relation for that.
    */
  private def isMerge(insert: V2WriteCommand): Boolean = insert match {
    case append: AppendData =>
      append.analyzedQuery.getOrElse(append.query).exists {
        case Join(_, target, LeftAnti, _, _) =>
          target.outputSet.intersect(append.table.outputSet).nonEmpty
        case _ => false
      }
    case other => other.nodeName == "InsertOnlyMerge"
  }

  def columns(verb: RowLevelOperation.Command): Seq[Attribute] =
    names(verb).map(AttributeReference(_, LongType)())

  private def names(verb: RowLevelOperation.Command): Seq[String] = verb match {
    case RowLevelOperation.Command.MERGE =>
      Seq("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
    case _ => Seq("num_affected_rows")
  }
}

/** A statement that answers `output`; its query is a child, so that Spark goes on analyzing it. */
private[pyhudi] case class HudiCounted(
    statement: LogicalPlan,
    override val output: Seq[Attribute],
    child: LogicalPlan)
    extends UnaryCommand {

  /** Spark's command, analyzed. */
  def restored: LogicalPlan = statement.withNewChildren(Seq(child)) match {
    case keeping: KeepAnalyzedQuery => keeping.storeAnalyzedQuery()
    case other => other
  }

  override def nodeName: String = statement.nodeName

  override protected def stringArgs: Iterator[Any] = Iterator(output)

  override protected def withNewChildInternal(newChild: LogicalPlan): HudiCounted =
    copy(child = newChild)
}
