package io.pyhudi

import org.apache.spark.sql.connector.expressions.aggregate.Aggregation
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/** Collects what Spark pushes down and builds the scan.
  *
  * All filters go to Python, which prunes files. Filters that partitions decide end there, so a
  * count or limit over whole partitions is pushed down. The others go to the Parquet reader, which
  * prunes row groups, and also stay with Spark, since neither drops single rows.
  */
private[pyhudi] class HudiScanBuilder(
    snapshot: HudiSnapshot,
    tableSchema: StructType,
    numbers: Option[HudiFileNumbers] = None,
    streamed: Option[StructType] = None)
    extends ScanBuilder
    with SupportsPushDownFilters
    with SupportsPushDownRequiredColumns
    with SupportsPushDownAggregates
    with SupportsPushDownLimit {

  private var partitionFilters: Seq[Filter] = Nil
  private var filters: Seq[Filter] = Nil
  private var required: StructType = tableSchema
  private var limit: Option[Int] = None
  private var asked: Option[(Seq[HudiAggregate], Option[Seq[Option[Long]]])] = None
  private var aggregates: Seq[HudiAggregate] = Nil

  private def request: HudiScanRequest =
    HudiScanRequest(snapshot, required, partitionFilters, filters, limit, numbers)

  override def pushFilters(pushed: Array[Filter]): Array[Filter] = {
    partitionFilters = snapshot.decided(pushed.toSeq)
    filters = pushed.toSeq.diff(partitionFilters)
    filters.toArray
  }

  override def pushedFilters(): Array[Filter] = (partitionFilters ++ filters).toArray

  override def pruneColumns(schema: StructType): Unit = required = schema

  override def supportCompletePushDown(aggregation: Aggregation): Boolean =
    answers(HudiAggregates.of(aggregation, tableSchema)).isDefined

  /** Accepts aggregates that Python answers from metadata alone. */
  override def pushAggregation(aggregation: Aggregation): Boolean = {
    val taken = supportCompletePushDown(aggregation)
    if (taken) aggregates = HudiAggregates.of(aggregation, tableSchema)
    taken
  }

  // Spark asks twice; Python is asked once.
  private def answers(wanted: Seq[HudiAggregate]): Option[Seq[Option[Long]]] =
    if (wanted.isEmpty) None
    else {
      if (!asked.exists(_._1 == wanted)) asked = Some(wanted -> request.answers(wanted))
      asked.flatMap(_._2)
    }

  override def pushLimit(rows: Int): Boolean = {
    limit = Some(rows)
    true
  }

  /** Python stops planning when the files have enough rows; Spark applies the exact limit. */
  override def isPartiallyPushed: Boolean = true

  /** Change logs hold the table's own columns alone. */
  private def fromLogs: Boolean =
    snapshot.logged && numbers.isEmpty && required.nonEmpty &&
      required.fieldNames.forall(snapshot.schema.fieldNames.toSet)

  override def build(): Scan =
    answers(aggregates).fold(
      if (fromLogs) HudiChangesScan(snapshot, required, filters, partitionFilters)
      else new HudiScan(request, streamed): Scan)(new HudiAnswerScan(request, aggregates, _))
}
