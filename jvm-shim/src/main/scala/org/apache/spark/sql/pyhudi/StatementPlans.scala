package org.apache.spark.sql.pyhudi

import org.apache.spark.SparkContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.plans.LeftAnti
import org.apache.spark.sql.catalyst.plans.logical.{
  Join,
  LogicalPlan,
  OverwritePartitionsDynamic,
  WriteDelta
}
import org.apache.spark.sql.connector.catalog.{SupportsRowLevelOperations, Table}
import org.apache.spark.sql.connector.write.{RowLevelOperation, RowLevelOperationTable}
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation
}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Spark's plans of statements that change rows: finds them, and moves them to a newer state. */
object StatementPlans {

  /** Whether `rows` come from a MERGE into `table` that only inserts: Spark turns it into an INSERT
    * of the rows without a match in this table.
    *
    * An INSERT of the same anti-join has the same plan, and is treated in the same way.
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

  /** The tables that a plan reads, subqueries included, with the options of each read. */
  def relations(plan: LogicalPlan): Seq[(Table, CaseInsensitiveStringMap)] =
    plan.collectWithSubqueries {
      case scan: DataSourceV2ScanRelation => scan.relation
      case relation: DataSourceV2Relation => relation
    }.map { relation =>
      relation.table match {
        case RowLevelOperationTable(table, _) => table -> relation.options
        case table => table -> relation.options
      }
    }

  /** The plan of a DataFrame. */
  def of(rows: DataFrame): LogicalPlan = Frames.execution(rows).logical

  /** The rows, with tables in the states `now`. */
  def on(rows: DataFrame, now: Map[Table, Table]): DataFrame = Frames.of(rows, on(of(rows), now))

  /** The plan, with tables in the states `now`. */
  def on(plan: LogicalPlan, now: Map[Table, Table]): LogicalPlan = replaced(plan)(now)

  /** The statement that runs on this thread, if `operation` gets its changes. */
  def running(operation: RowLevelOperation): Option[LogicalPlan] = onThisThread {
    case delta: WriteDelta => this.operation(delta.table).exists(_ eq operation)
    case _ => false
  }

  /** The statement that runs on this thread, if it overwrites partitions of `table`. */
  def overwriting(table: Table): Option[LogicalPlan] = onThisThread {
    case dynamic: OverwritePartitionsDynamic => writesTo(dynamic.table, table)
    case _ => false
  }

  private def onThisThread(isOurs: LogicalPlan => Boolean): Option[LogicalPlan] =
    for {
      context <- SparkContext.getActive
      id <- Option(context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
      execution <- Option(SQLExecution.getQueryExecution(id.toLong))
      if execution.normalized.exists(isOurs)
    } yield execution.normalized

  private def writesTo(relation: NamedRelation, table: Table): Boolean = relation match {
    case written: DataSourceV2Relation => written.table eq table
    case _ => false
  }

  /** What gets the changes of rows that are written to `relation`. */
  def operation(relation: NamedRelation): Option[RowLevelOperation] = relation match {
    case written: DataSourceV2Relation =>
      written.table match {
        case RowLevelOperationTable(_, found) => Some(found)
        case _ => None
      }
    case _ => None
  }

  /** The statement with tables in the states `fresh`; `operation` gets its changes of `now`. */
  def on(
      statement: LogicalPlan,
      fresh: Map[Table, Table],
      now: Table with SupportsRowLevelOperations,
      operation: RowLevelOperation): LogicalPlan = {
    val changed = RowLevelOperationTable(now, operation)
    val newer: PartialFunction[Table, Table] = {
      case RowLevelOperationTable(_, _) => changed
      case table if fresh.contains(table) => fresh(table)
    }
    def relation(found: NamedRelation): NamedRelation =
      replaced(found.asInstanceOf[LogicalPlan])(newer).asInstanceOf[NamedRelation]
    // The table that a command writes to is not one of its children.
    replaced(statement)(newer).transform { case delta: WriteDelta =>
      delta.copy(table = relation(delta.table), originalTable = relation(delta.originalTable))
    }
  }

  /** The overwrite of partitions that reads tables in the states `fresh` and writes to `now`. */
  def overwriting(statement: LogicalPlan, fresh: Map[Table, Table], now: Table): LogicalPlan =
    // By names: Spark's lines give the command's class different fields.
    replaced(statement)(fresh).transform { case dynamic: OverwritePartitionsDynamic =>
      dynamic.table match {
        case written: DataSourceV2Relation =>
          dynamic.copy(table = written.copy(table = now), write = None)
        case _ => dynamic
      }
    }

  private def replaced(plan: LogicalPlan)(fresh: PartialFunction[Table, Table]): LogicalPlan =
    plan.transformWithSubqueries {
      case relation: DataSourceV2Relation if fresh.isDefinedAt(relation.table) =>
        relation.copy(table = fresh(relation.table))
    }

  /** Runs a statement inside the statement of this thread. */
  def run(statement: LogicalPlan, name: String): Unit = {
    val execution = Frames.execution(statement)
    SQLExecution.withNewExecutionId(execution, Some(name))(execution.executedPlan.executeCollect())
    ()
  }
}
