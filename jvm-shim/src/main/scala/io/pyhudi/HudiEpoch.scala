package io.pyhudi

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.pyhudi.{RunningBatches, StatementPlans}

/** The micro-batch of a stream in which a question is asked.
  *
  * @param query the query's id in its checkpoint
  * @param run the id of this run of the query
  */
private[pyhudi] final case class HudiEpoch(query: String, run: String, number: Long) {
  def toMap: Map[String, Any] = Map("query" -> query, "run" -> run, "number" -> number)
}

private[pyhudi] object HudiEpoch {

  /** The batch of this thread, if it is a stream's own; also within the user's `foreachBatch`. */
  def here: Option[HudiEpoch] = RunningBatches.onThread.map(of)

  /** The batch that the rows are made of, on whatever thread they are written. */
  def of(rows: DataFrame): Option[HudiEpoch] = in(StatementPlans.of(rows))

  /** The batch whose rows a plan has, on whatever thread it runs. */
  def in(plan: LogicalPlan): Option[HudiEpoch] =
    RunningBatches.in(plan).map(of).orElse(here)

  private def of(running: RunningBatches.Running): HudiEpoch =
    HudiEpoch(running.query, running.run, running.number)
}
