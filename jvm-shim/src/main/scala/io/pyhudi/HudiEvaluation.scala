package io.pyhudi

import java.io.{PrintWriter, StringWriter}

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.connector.write.Write
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Strategy, V2CommandExec}
import org.apache.spark.sql.pyhudi.HudiAnalysisException

/** A write whose rows Spark itself evaluates in a job of its own. */
private[pyhudi] trait HudiEvaluated {

  def place: HudiPlace

  def description(): String
}

/** Plans such writes so that a failure of their job ends in one error of pyhudi's, as that of a job
  * which Python runs; and statements that change rows so that they answer how many.
  */
private[pyhudi] object HudiEvaluation extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    val evaluated = written(plan).collect { case ours: HudiEvaluated => ours }
    val verb = HudiRowCounts.verb(plan)
    if (evaluated.isEmpty && verb.isEmpty) Nil
    else {
      new DataSourceV2Strategy(Compat.activeSession)(plan)
        .map(spark => evaluated.fold(spark)(ours => guarded(spark, ours)))
        .map(spark => verb.fold(spark)(v => HudiCountedExec(spark, v, HudiRowCounts.columns(v))))
    }
  }

  private def guarded(spark: SparkPlan, ours: HudiEvaluated): SparkPlan =
    HudiEvaluatedExec(spark, ours.place, ours.description())

  private def written(plan: LogicalPlan): Option[Write] = plan match {
    case delta: WriteDelta => delta.write
    case dynamic: OverwritePartitionsDynamic => dynamic.write
    case _ => None
  }
}

private[pyhudi] case class HudiEvaluatedExec(
    child: SparkPlan,
    place: HudiPlace,
    description: String)
    extends V2CommandExec
    with UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override protected def run(): Seq[InternalRow] =
    try named(child.executeCollect().toSeq)
    catch {
      case NonFatal(failure) if !isCancelled(failure) =>
        ours(failure, 8).foreach(told => throw told)
        Bridge.ask("tell_failure", place, "description" -> description, "text" -> text(failure))
        throw failure
    }

  /** Runs Spark jobs under this name. */
  private def named[T](jobs: => T): T = {
    val key = "spark.job.description"
    val before = sparkContext.getLocalProperty(key)
    sparkContext.setLocalProperty(key, s"$description: evaluate the statement")
    try jobs
    finally sparkContext.setLocalProperty(key, before)
  }

  private def cancelled = "^(\\[SPARK_JOB_CANCELLED\\] )?Job \\d+ cancelled".r

  private def isCancelled(failure: Throwable): Boolean = failure match {
    case job: SparkException =>
      job.getCause == null && cancelled.findFirstIn(String.valueOf(job.getMessage)).isDefined
    case _ => false
  }

  @tailrec private def ours(failure: Throwable, deepest: Int): Option[HudiAnalysisException] =
    failure match {
      case told: HudiAnalysisException => Some(told)
      case other if other == null || deepest == 0 => None
      case other => ours(other.getCause, deepest - 1)
    }

  private def text(failure: Throwable): String = {
    val told = new StringWriter
    failure.printStackTrace(new PrintWriter(told, true))
    told.toString
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan =
    copy(child = newChild)
}
