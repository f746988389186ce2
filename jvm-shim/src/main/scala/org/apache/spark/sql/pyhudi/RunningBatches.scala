package org.apache.spark.sql.pyhudi

import java.util.UUID

import scala.collection.JavaConverters._
import scala.util.Try

import org.apache.spark.SparkContext
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.streaming.Sink

/** The micro-batches that the application's streams are working on. */
object RunningBatches {

  /** A batch of a query, and the run of the query that works on it. */
  final case class Running(query: String, run: String, number: Long)

  // The names of Spark's own properties; the objects that have them moved between Spark's lines.
  private val QueryId = "sql.streaming.queryId"
  private val BatchId = "streaming.sql.batchId"
  private val ThreadName = "stream execution thread for "

  /** The batch of this thread, if it is the thread of a stream.
    *
    * The properties alone do not tell: a thread that was started in one batch keeps them for ever.
    */
  def onThread: Option[Running] =
    if (!Thread.currentThread.getName.startsWith(ThreadName)) None
    else
      for {
        context <- SparkContext.getActive
        query <- Option(context.getLocalProperty(QueryId))
        number <- Option(context.getLocalProperty(BatchId))
        stream <- Option(streams.get(UUID.fromString(query)))
      } yield Running(query, stream.runId.toString, number.toLong)

  /** Whether the stream of this thread has been told to stop. */
  def isStopping: Boolean =
    SparkContext.getActive.flatMap(context => Option(context.getLocalProperty(QueryId)))
      .flatMap(query => Option(streams.get(UUID.fromString(query)))).exists(!_.isActive)

  /** The batch whose rows a plan has: that of `foreachBatch`, also through Spark Connect.
    *
    * Only sinks of the old kind hand out rows. To ask another one's batch for its rows would wait
    * until it has written them.
    */
  def in(plan: LogicalPlan): Option[Running] = {
    val rows = plan.collectWithSubqueries { case made: LogicalRDD => made.rdd }
    if (rows.isEmpty || streams.isEmpty) None
    else
      streams.values().asScala.iterator.filter(_.sink.isInstanceOf[Sink]).flatMap { stream =>
        for {
          batch <- Option(stream.lastExecution)
          if rows.exists(made => Try(made eq batch.toRdd).getOrElse(false))
        } yield Running(stream.id.toString, stream.runId.toString, batch.currentBatchId)
      }.take(1).toSeq.headOption
  }

  /** The rows of a batch as a frame that any plan may use, as `foreachBatch` makes it. A batch's
    * own frame must not be changed, since its plan knows the state of the stream.
    */
  def frame(batch: DataFrame): DataFrame =
    Frames.of(batch, Frames.rowsOf(batch))

  private def streams = Frames.sharedState.activeStreamingQueries
}
