package io.pyhudi

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.pyhudi.{HudiAnalysisException, StatementPlans}

/** Each micro-batch of a stream reads the tables that it is joined with as they are then.
  *
  * Their DataFrames were made before the stream began, and have its states. A read at a point in
  * time that the user named stays.
  */
private[pyhudi] object HudiStaticReads extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.isStreaming) plan
    else {
      val fresh = HudiOwnReads.movable(plan).map { case (table, known) =>
        table -> known.now.getOrElse(throw otherColumns(known))
      }
      if (fresh.isEmpty) plan else StatementPlans.on(plan, fresh.toMap)
    }

  private def otherColumns(table: HudiTable): Throwable = new HudiAnalysisException(
    s"[SCHEMA_CONFLICT] The table at ${table.snapshot.path}, with which a stream is joined, has " +
      "other columns than when the stream began. Nothing of the batch was written. Start the " +
      "query again with a new DataFrame of the table.",
    "SchemaConflict"
  )
}
