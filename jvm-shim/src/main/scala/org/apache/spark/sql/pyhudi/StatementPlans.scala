package org.apache.spark.sql.pyhudi

import org.apache.spark.SparkContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.plans.LeftAnti
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, WriteDelta}
import org.apache.spark.sql.connector.catalog.{SupportsRowLevelOperations, Table}
import org.apache.spark.sql.connector.write.{RowLevelOperation, RowLevelOperationTable}
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation
}

/** Spark's plans of statements that change rows: what they are, and the same on a newer state. */
object StatementPlans {

  /** Whether `rows` are those of a MERGE into `table` that only inserts: Spark makes it an INSERT
    * of the rows that have no match in this very table.
    *
    * An INSERT of the same anti-join is one and the same plan, and treated alike.
    */
  def isMerge(rows: DataFrame, table: Table): Boolean = Frames.execution(rows).logical.exists {
    case Join(_, right, LeftAnti, _, _) => reads(right, table)
    case _ => false
  }

  private def reads(plan: LogicalPlan, table: Table): Boolean = plan.exists {
    case scan: DataSourceV2ScanRelation => scan.relation.table eq table
    case relation: DataSourceV2Relation => relation.table eq table
    case _ => false
  }

  /** The rows as they are where `table` is as `now` says. */
  def on(rows: DataFrame, table: Table, now: Table): DataFrame =
    Frames.of(rows, replaced(Frames.execution(rows).logical) { case `table` => now })

  /** The statement that runs on this thread, if `operation` is what takes its changes. */
  def running(operation: RowLevelOperation): Option[LogicalPlan] =
    for {
      context <- SparkContext.getActive
      id <- Option(context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
      execution <- Option(SQLExecution.getQueryExecution(id.toLong))
      if execution.analyzed.exists {
        case delta: WriteDelta => takes(delta.table, operation)
        case _ => false
      }
    } yield execution.analyzed

  private def takes(relation: NamedRelation, operation: RowLevelOperation): Boolean =
    relation match {
      case written: DataSourceV2Relation =>
        written.table match {
          case RowLevelOperationTable(_, found) => found eq operation
          case _ => false
        }
      case _ => false
    }

  /** The statement where `table` is as `now` says, its changes taken by `operation`. */
  def on(
      statement: LogicalPlan,
      table: Table,
      now: Table with SupportsRowLevelOperations,
      operation: RowLevelOperation): LogicalPlan = {
    val changed = RowLevelOperationTable(now, operation)
    val fresh: PartialFunction[Table, Table] = {
      case RowLevelOperationTable(`table`, _) => changed
      case `table` => now
    }
    def relation(found: NamedRelation): NamedRelation =
      replaced(found.asInstanceOf[LogicalPlan])(fresh).asInstanceOf[NamedRelation]
    // What a command writes to is none of its children.
    replaced(statement)(fresh).transform { case delta: WriteDelta =>
      delta.copy(table = relation(delta.table), originalTable = relation(delta.originalTable))
    }
  }

  private def replaced(plan: LogicalPlan)(fresh: PartialFunction[Table, Table]): LogicalPlan =
    plan.transformWithSubqueries {
      case relation: DataSourceV2Relation if fresh.isDefinedAt(relation.table) =>
        relation.copy(table = fresh(relation.table))
    }

  /** Runs a statement within the one of this thread. */
  def run(statement: LogicalPlan, name: String): Unit = {
    val execution = Frames.execution(statement)
    SQLExecution.withNewExecutionId(execution, Some(name))(execution.executedPlan.executeCollect())
    ()
  }
}
