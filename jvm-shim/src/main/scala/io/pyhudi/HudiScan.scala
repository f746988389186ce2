package io.pyhudi

import java.util.OptionalLong

import scala.collection.JavaConverters._

import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/** The request of a scan to Python.
  *
  * @param partitionFilters filters that the choice of partitions decides for every row
  * @param filters filters that Spark evaluates on the rows
  * @param numbers the numbers of files, if a statement must find files by number
  */
private[pyhudi] final case class HudiScanRequest(
    snapshot: HudiSnapshot,
    required: StructType,
    partitionFilters: Seq[Filter],
    filters: Seq[Filter],
    limit: Option[Int],
    numbers: Option[HudiFileNumbers] = None) {

  private def question: Seq[(String, Any)] = snapshot.question ++ Seq(
    "partition_filters" -> HudiFilters.told(partitionFilters),
    "filters" -> HudiFilters.told(filters))

  /** @param runtime filters from the other side of a join, while the query runs */
  def plan(runtime: Seq[Filter] = Nil): HudiScanPlan = HudiScanPlan.parse(
    Bridge.ask(
      "plan_scan",
      snapshot.place,
      question ++ Seq(
        "limit" -> limit,
        "homes" -> numbers.isDefined,
        "runtime_filters" -> HudiFilters.told(runtime)): _*))

  /** The rows that come from log files: blocks that executors decode, or rows of Python's workers.
    *
    * @param homes a file of each of their slices
    */
  def logRows(reading: HudiReading, homes: Seq[String]): Array[InputPartition] =
    HudiChangeRows.asked(
      snapshot,
      reading.read,
      filters,
      partitionFilters,
      numbers.toSeq.flatMap(to => homes.map(home => home -> to.of(home))),
      decodes = numbers.isEmpty && reading.constants.isEmpty && reading.changed.isEmpty
    ) match {
      case Left(blocks) => HudiBlocks.parse(blocks, reading.read)
      case Right(rows) => HudiBatch.ofWorkers(rows).partitions
    }

  def description: String =
    s"pyhudi ${snapshot.path} at ${snapshot.instant.getOrElse("no instant")}, " +
      s"PartitionFilters: ${partitionFilters.mkString("[", ", ", "]")}"

  /** The aggregates of the rows that pass the filters, null as `None`; no answer if only a scan can
    * give it.
    */
  def answers(aggregates: Seq[HudiAggregate]): Option[Seq[Option[Long]]] =
    if (aggregates.forall(_.column.isEmpty)) {
      Json.some(Bridge.ask("count", snapshot.place, question: _*)).map(rows =>
        aggregates.map(_ => Some(rows.asLong)))
    } else {
      val wanted = "wanted" -> aggregates.map(_.question)
      Json.some(Bridge.ask("aggregate", snapshot.place, question :+ wanted: _*)).map(
        _.elements().asScala.map(value => Json.some(value).map(_.asLong)).toList)
    }
}

/** A scan of one instant. Python plans it once, with the first question that needs the files.
  *
  * @param streamed the columns of a stream of the table
  */
private[pyhudi] class HudiScan(
    val request: HudiScanRequest,
    streamed: Option[StructType] = None)
    extends Scan
    with Batch
    with SupportsReportStatistics
    with SupportsRuntimeFiltering {

  private val reading = HudiReading(request)

  // No lock is held during the call to Python; at worst a second thread plans again.
  @volatile private var planned: Option[HudiScanPlan] = None

  private def plan: HudiScanPlan = planned.getOrElse {
    val fresh = request.plan()
    planned = Some(fresh)
    fresh
  }

  override def readSchema(): StructType = reading.schema

  override def toBatch: Batch = this

  // Spark does not say at first whether a stream reads the table.
  @volatile private var stream: Option[HudiMicroBatchStream] = None

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream = {
    val made = new HudiMicroBatchStream(request.snapshot, streamed.getOrElse(request.required))
    stream = Some(made)
    made
  }

  override def columnarSupportMode(): Scan.ColumnarSupportMode =
    if (stream.isDefined) Scan.ColumnarSupportMode.PARTITION_DEFINED
    else if (reading.columnar) Scan.ColumnarSupportMode.SUPPORTED
    else Scan.ColumnarSupportMode.UNSUPPORTED

  override def planInputPartitions(): Array[InputPartition] =
    HudiSplits.of(plan, reading, request.numbers) ++ logRows

  /** The rows of log files; Spark asks for the partitions again and again. */
  private lazy val logRows: Array[InputPartition] =
    if (plan.logRows == 0) Array.empty else request.logRows(reading, plan.logHomes)

  override def createReaderFactory(): PartitionReaderFactory =
    HudiReaderFactory(plan, reading)

  /** The columns for which a join may give the needed values while it runs. */
  override def filterAttributes(): Array[NamedReference] =
    request.snapshot.runtimeFilters.filter(readSchema().fieldNames.contains)
      .map(name => Expressions.column(s"`${name.replace("`", "``")}`"): NamedReference).toArray

  /** Leaves out files whose partitions or key ranges the other side of a join does not have. */
  override def filter(filters: Array[Filter]): Unit = {
    val fewer = request.plan(filters.toSeq)
    planned = Some(plan.only(fewer.files.iterator.map(_.path).toSet))
  }

  override def supportedCustomMetrics(): Array[CustomMetric] = HudiScanMetrics.all

  override def reportDriverMetrics(): Array[CustomTaskMetric] =
    stream.fold(HudiScanMetrics.of(plan))(_.driverMetrics)

  override def estimateStatistics(): Statistics = new Statistics {
    // Scaled to the columns that are read, as for Spark's own Parquet tables, so that joins are
    // planned in the same way.
    override def sizeInBytes(): OptionalLong = if (stream.isDefined) OptionalLong.empty()
    else {
      val whole = math.max(1, request.snapshot.schema.defaultSize).toDouble
      val part = math.min(1.0, reading.schema.defaultSize / whole)
      OptionalLong.of(math.max(1L, ((plan.sizeInBytes + plan.logBytes) * part).toLong))
    }
    override def numRows(): OptionalLong = if (stream.isDefined) OptionalLong.empty()
    else plan.rows.fold(OptionalLong.empty())(OptionalLong.of(_))
  }

  override def description(): String = {
    val files = planned.fold("")(p => s", files: ${p.files.size}, bytes: ${p.sizeInBytes}")
    val rows = request.limit.fold("")(n => s", limit: $n")
    s"${request.description}$files, " +
      s"PushedFilters: ${request.filters.mkString("[", ", ", "]")}$rows"
  }

  // Equal scans let Spark reuse an exchange.
  override def equals(other: Any): Boolean = other match {
    case that: HudiScan => request == that.request
    case _ => false
  }

  override def hashCode(): Int = request.hashCode
}
