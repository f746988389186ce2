package io.pyhudi

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.expressions.aggregate.{Aggregation, CountStar}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.{LongType, StructType}

/** Collects what Spark pushes down and builds the scan.
  *
  * All filters go to Python, which prunes files, and to the Parquet reader, which prunes row
  * groups; all are left to Spark as well, since neither drops single rows.
  */
private[pyhudi] class HudiScanBuilder(
    snapshot: HudiSnapshot,
    tableSchema: StructType)
    extends ScanBuilder
    with SupportsPushDownFilters
    with SupportsPushDownRequiredColumns
    with SupportsPushDownAggregates
    with SupportsPushDownLimit {

  private var filters: Array[Filter] = Array.empty
  private var required: StructType = tableSchema
  private var limit: Option[Int] = None
  private var countAnswer: Option[Option[Long]] = None
  private var pushedCounts = 0

  private def request: HudiScanRequest =
    HudiScanRequest(snapshot, required, filters.toSeq, limit)

  override def pushFilters(pushed: Array[Filter]): Array[Filter] = {
    filters = pushed
    pushed
  }

  override def pushedFilters(): Array[Filter] = filters

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
    if (pushedCounts > 0) new HudiCountScan(snapshot.path, count.get, pushedCounts)
    else new HudiScan(request)
}

/** `count(*)` answered from the table's metadata: no job, no file. */
private[pyhudi] class HudiCountScan(path: String, rows: Long, copies: Int) extends LocalScan {

  override def rows(): Array[InternalRow] = Array(InternalRow.fromSeq(Seq.fill(copies)(rows)))

  override def readSchema(): StructType =
    (0 until copies).foldLeft(new StructType())((s, i) => s.add(s"count_$i", LongType, false))

  override def description(): String = s"pyhudi $path count from metadata"
}
