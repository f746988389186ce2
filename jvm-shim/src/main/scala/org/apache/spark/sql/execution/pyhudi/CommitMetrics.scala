package org.apache.spark.sql.execution.pyhudi

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.{ExplainMode, SQLExecution, SparkPlanInfo}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetricInfo, SQLMetrics}
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate
import org.apache.spark.sql.internal.SQLConf

/** The numbers of a commit on the page of its query in Spark's SQL tab: a node above the plan.
  *
  * Spark itself asks only some kinds of writes for such numbers, and in 3.5 none.
  */
object CommitMetrics {

  /** Shows the numbers at the query that this thread runs, if it runs one.
    *
    * @param facts name, kind (`sum`, `size` in bytes, `timing` in milliseconds) and value of each
    */
  def show(context: SparkContext, title: String, facts: Seq[(String, String, Long)]): Unit = {
    val id = Option(context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
    id.foreach { key =>
      Option(SQLExecution.getQueryExecution(key.toLong)).foreach { query =>
        val metrics = facts.map { case (name, kind, value) => metric(context, name, kind, value) }
        val plan = new SparkPlanInfo(
          "pyhudi commit",
          title,
          Seq(SparkPlanInfo.fromSparkPlan(query.executedPlan)),
          Map.empty,
          metrics.map(m => new SQLMetricInfo(m.name.get, m.id, m.metricType)))
        val mode = ExplainMode.fromString(SQLConf.get.uiExplainMode)
        context.listenerBus.post(
          SparkListenerSQLAdaptiveExecutionUpdate(key.toLong, query.explainString(mode), plan))
        SQLMetrics.postDriverMetricUpdates(context, key, metrics)
      }
    }
  }

  private def metric(context: SparkContext, name: String, kind: String, value: Long): SQLMetric = {
    val made = kind match {
      case "size" => SQLMetrics.createSizeMetric(context, name)
      case "timing" => SQLMetrics.createTimingMetric(context, name)
      case _ => SQLMetrics.createMetric(context, name)
    }
    made.set(value)
    made
  }
}
