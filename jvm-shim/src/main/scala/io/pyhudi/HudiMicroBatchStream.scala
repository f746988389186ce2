package io.pyhudi

import java.util
import java.util.{Optional, UUID}

import scala.collection.JavaConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.types.StructType

/** A place in a table, as Python names it; Spark keeps the text in its checkpoint. */
private[pyhudi] final class HudiOffset(override val json: String) extends Offset

/** A table as a stream. Python decides where each batch ends and what it reads.
  *
  * Nothing is kept here that a restart needs: the checkpoint has the places, and a place means the
  * same to every process.
  *
  * @param schema the columns of each row, in their order
  */
private[pyhudi] class HudiMicroBatchStream(snapshot: HudiSnapshot, schema: StructType)
    extends MicroBatchStream
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics
    with Logging {

  private val id = UUID.randomUUID().toString

  // Asked at once, so that a table or an option that no stream can have is refused at the start.
  private val begun = Bridge.ask("begin_stream", snapshot.place, question(): _*)

  @volatile private var until: Option[String] = None
  @volatile private var newest: Option[String] = None
  @volatile private var backlog: Map[String, String] = Map.empty
  @volatile private var batch: HudiBatch = HudiBatch.empty
  @volatile private var between: Option[(String, String)] = None

  private def question(more: (String, Any)*): Seq[(String, Any)] =
    Seq("stream" -> id) ++ snapshot.question ++ more

  override def initialOffset(): Offset = new HudiOffset(begun.get("place").asText)

  override def deserializeOffset(json: String): Offset = new HudiOffset(json)

  /** The limits are options, which Python knows; this one only says that there are some. */
  override def getDefaultReadLimit: ReadLimit =
    if (begun.get("limited").asBoolean) HudiReadLimit else ReadLimit.allAvailable()

  override def prepareForTriggerAvailableNow(): Unit = until = Some(begun.get("newest").asText)

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException("Spark asks with a start and a limit")

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val answer = Bridge.ask(
      "next_batch",
      snapshot.place,
      question(
        "start" -> start.json,
        "limited" -> (limit != ReadLimit.allAvailable()),
        "until" -> until): _*)
    newest = Json.some(answer.get("newest")).map(_.asText)
    backlog = HudiSnapshot.textMap(answer.get("backlog"))
    Json.some(answer.get("end")).map(end => new HudiOffset(end.asText)).orNull
  }

  override def reportLatestOffset(): Offset = newest.map(new HudiOffset(_)).orNull

  override def metrics(latestConsumedOffset: Optional[Offset]): util.Map[String, String] =
    backlog.asJava

  /** Spark asks several times for one batch, since each rewriting of its plan asks again. */
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val asked = start.json -> end.json
    if (!between.contains(asked)) {
      batch = planned(start, end)
      between = Some(asked)
    }
    batch.partitions
  }

  private def planned(start: Offset, end: Offset): HudiBatch = {
    val workers = new HudiChangeRows
    val answer = Bridge.askWith(
      "plan_batch",
      workers,
      snapshot.place,
      question("start" -> start.json, "end" -> end.json, "schema" -> Json.of(schema)): _*)
    Json.some(answer.get("files")) match {
      case Some(files) =>
        val rows = Json.some(answer.get("rows")).map(HudiRangeRows.parse)
        val read = HudiBatch.ofFiles(HudiScanPlan.parse(files), snapshot.copy(rows = rows), schema)
        if (answer.get("logs").asBoolean) read.withLogRows(workers.rows) else read
      case None => workers.answered.fold(HudiBatch.empty)(HudiBatch.ofWorkers)
    }
  }

  /** Spark calls it after [[planInputPartitions]] of the same batch. */
  override def createReaderFactory(): PartitionReaderFactory = batch.readers

  def driverMetrics: Array[CustomTaskMetric] = batch.metrics

  override def commit(end: Offset): Unit = {
    Bridge.ask("read_up_to", snapshot.place, question("end" -> end.json): _*)
    ()
  }

  override def stop(): Unit =
    try {
      Bridge.ask("end_stream", snapshot.place, "stream" -> id)
      ()
    } catch {
      // The lease then ends with its process, or when it is stale.
      case NonFatal(e) => untold(e)
      case e: InterruptedException => untold(e)
    }

  private def untold(e: Throwable): Unit =
    logWarning(s"the end of a stream of ${snapshot.path} was not told", e)

  override def toString: String = s"pyhudi ${snapshot.path}"
}

/** Limits that are options of the stream. */
private[pyhudi] case object HudiReadLimit extends ReadLimit
