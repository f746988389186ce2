package io.pyhudi

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.expressions.aggregate.{Aggregation, CountStar}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.{LongType, StructType}

/** Collects what Spark pushes down and builds the scan.
  *
  * All filters go to Python, which prunes files. Those that partitions decide end there, so that a
  * count or limit over whole partitions is pushed down; the others go to the Parquet reader, which
  * prunes row groups, and are left to Spark, since neither drops single rows.
  */
private[pyhudi] class HudiScanBuilder(
    snapshot: HudiSnapshot,
    tableSchema: StructType)
    extends ScanBuilder
    with SupportsPushDownFilters
    with SupportsPushDownRequiredColumns
    with SupportsPushDownAggregates
    with SupportsPushDownLimit {

  private var partitionFilters: Seq[Filter] = Nil
  private var filters: Seq[Filter] = Nil
  private var required: StructType = tableSchema
  private var limit: Option[Int] = None
  private var countAnswer: Option[Option[Long]] = None
  private var pushedCounts = 0

  private def request: HudiScanRequest =
    HudiScanRequest(snapshot, required, partitionFilters, filters, limit)

  override def pushFilters(pushed: Array[Filter]): Array[Filter] = {
    partitionFilters = snapshot.decided(pushed.toSeq)
    filters = pushed.toSeq.diff(partitionFilters)
    filters.toArray
  }

  override def pushedFilters(): Array[Filter] = (partitionFilters ++ filters).toArray

  override def pruneColumns(schema: StructType): Unit = required = schema

  override def supportCompletePushDown(aggregation: Aggregation): Boolean =
    isCount(aggregation) && count.isDefined

  /** Takes `count(*)` if Python knows the answer from metadata alone. */
  override def pushAggregation(aggregation: Aggregation): Boolean = {
    val taken = supportCompletePushDown(aggregation)
    if (taken) pushedCounts = aggregation.aggregateExpressions().length
    taken
  }

  private def isCount(aggregation: Aggregation): Boolean = {
    val functions = aggregation.aggregateExpressions()
    functions.nonEmpty && functions.forall(_.isInstanceOf[CountStar]) &&
    aggregation.groupByExpressions().isEmpty
  }

  // Spark asks twice; Python is asked once.
  private def count: Option[Long] = {
    if (countAnswer.isEmpty) countAnswer = Some(request.count())
    countAnswer.flatten
  }

  override def pushLimit(rows: Int): Boolean = {
    limit = Some(rows)
    true
  }

  /** Python stops planning when the files hold enough rows; Spark cuts at the row. */
  override def isPartiallyPushed: Boolean = true

  override def build(): Scan =
    if (pushedCounts > 0) new HudiCountScan(request, count.get, pushedCounts)
    else new HudiScan(request)
}

/** `count(*)` answered from the table's metadata: no job, no file. */
private[pyhudi] class HudiCountScan(request: HudiScanRequest, rows: Long, copies: Int)
    extends LocalScan {

  override def rows(): Array[InternalRow] = Array(InternalRow.fromSeq(Seq.fill(copies)(rows)))

  override def readSchema(): StructType =
    (0 until copies).foldLeft(new StructType())((s, i) => s.add(s"count_$i", LongType, false))

  override def description(): String = s"${request.description}, count from metadata"
}
