package io.pyhudi

import java.util
import java.util.concurrent.atomic.AtomicReference

import scala.collection.JavaConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.pyhudi.RunningBatches

/** The sink of one streaming query: it passes each micro-batch to Python as a whole.
  *
  * @param options the stream's options, without those of Spark itself
  * @param complete whether a batch's rows are all rows of the result
  */
private[pyhudi] class HudiSink(
    target: HudiTarget,
    options: Map[String, String],
    partitioning: Seq[String],
    complete: Boolean)
    extends Sink
    with ReportsSinkMetrics {

  // Of a batch that Spark has not reported yet: it also asks when there was none.
  private val progress = new AtomicReference(Map.empty[String, String])

  override def addBatch(batchId: Long, data: DataFrame): Unit = {
    val answer = HudiCommits.askWith(
      "write_batch",
      RunningBatches.frame(data),
      target.at(options),
      "complete" -> complete,
      "partitioning" -> partitioning)
    progress.set(HudiSnapshot.textMap(answer.get("progress")))
  }

  override def metrics(): util.Map[String, String] = progress.getAndSet(Map.empty).asJava

  /** What the query's progress calls the sink. */
  override def toString: String = s"pyhudi[${target.path}]"
}

private[pyhudi] object HudiSink {

  /** Options of a stream that are Spark's, in lower case. */
  private val sparks = Set("checkpointlocation", "queryname", "outputmode", "path")

  def ownOptions(options: Map[String, String]): Map[String, String] =
    options.filter { case (key, _) => !sparks(key.toLowerCase(java.util.Locale.ROOT)) }

  // `toTable` finds a table in the catalog, and then makes a sink by its path alone, on one thread.
  private val found = new ThreadLocal[HudiTarget]

  /** Notes the table to which a stream is about to write by name. */
  def note(target: HudiTarget): Unit = found.set(target)

  /** The table at `path`: by its name, if a stream has just named it so. */
  def target(path: String): HudiTarget = {
    val named = Option(found.get)
    found.remove()
    named.filter(table => HudiDataSource.located(table.path) == path)
      .getOrElse(HudiTarget(path, HudiDataSource.provider, s"`$path`", Map.empty))
  }
}
