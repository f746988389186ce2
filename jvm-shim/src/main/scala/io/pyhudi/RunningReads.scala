package io.pyhudi

import java.util.concurrent.ConcurrentHashMap

import scala.collection.JavaConverters._
import scala.util.Try

import org.apache.spark.api.java.JavaSparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.ui.{
  SparkListenerSQLExecutionEnd,
  SparkListenerSQLExecutionStart
}
import org.apache.spark.sql.pyhudi.OneListener

/** Knows which states of tables the application's queries are reading, for Python's leases.
  *
  * A plan runs as often as its DataFrame is asked, also long after Python planned its files. So
  * what counts are Spark's executions. A plan is looked at only if somebody asks while it runs.
  */
object RunningReads {

  private val listener = new OneListener(() => new ExecutionListener)

  def install(context: JavaSparkContext): Unit = {
    listener.of(context.sc)
    ()
  }

  /** The pins of the states that executions have been reading for `ms`, a line each. */
  def olderThan(context: JavaSparkContext, ms: Long): String =
    listener.of(context.sc).olderThan(ms).flatMap(pins).distinct.mkString("\n")

  /** An execution that ends meanwhile has no plan any more. */
  private def pins(execution: Long): Seq[String] =
    Option(SQLExecution.getQueryExecution(execution))
      .flatMap(query => Try(pins(query.executedPlan)).toOption).getOrElse(Nil)

  private def pins(plan: SparkPlan): Seq[String] = plan match {
    case adaptive: AdaptiveSparkPlanExec => pins(adaptive.inputPlan)
    case stage: QueryStageExec => pins(stage.plan)
    case cached: InMemoryTableScanExec => pins(cached.relation.cachedPlan)
    case read: BatchScanExec => Seq(read.scan).collect {
        case scan: HudiScan => scan.request.snapshot.pin
      }
    case other => (other.children ++ other.subqueries).flatMap(pins)
  }
}

/** When each running execution began, by the monotonic clock. */
private[pyhudi] class ExecutionListener extends SparkListener {

  private val began = new ConcurrentHashMap[Long, Long]

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case start: SparkListenerSQLExecutionStart =>
      began.put(start.executionId, System.nanoTime())
      ()
    case end: SparkListenerSQLExecutionEnd =>
      began.remove(end.executionId)
      ()
    case _ => ()
  }

  def olderThan(ms: Long): Seq[Long] = {
    val now = System.nanoTime()
    began.asScala.collect { case (id, start) if now - start >= ms * 1000000L => id }.toSeq
  }
}
