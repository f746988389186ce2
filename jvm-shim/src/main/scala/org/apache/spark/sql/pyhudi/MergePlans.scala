package org.apache.spark.sql.pyhudi

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.LeftAnti
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation,
  DataSourceV2ScanRelation
}

/** What Spark makes of a MERGE that only inserts: an INSERT of the rows without a match. */
object MergePlans {

  /** Whether `rows` are those of a MERGE into `table`: they have no match in this very table.
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
}
