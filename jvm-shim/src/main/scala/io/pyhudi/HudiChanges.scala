package io.pyhudi

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row, SQLContext}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.pyhudi.{FrameRows, HudiAnalysisException}
import org.apache.spark.sql.sources.{BaseRelation, Filter, TableScan}
import org.apache.spark.sql.types.StructType

/** Takes the DataFrame that answers a question; Python calls `take`. */
final class HudiChangeRows {

  private var frame: Option[DataFrame] = None

  def take(answer: DataFrame): Unit = frame = Some(answer)

  private[pyhudi] def answered: Option[RDD[Row]] = frame.map(FrameRows.of)

  private[pyhudi] def rows: RDD[Row] =
    answered.getOrElse(throw new IllegalStateException("Python gave no rows"))
}

private[pyhudi] object HudiChangeRows {

  /** The rows that Python's workers read, in the columns of `schema`.
    *
    * @param homes files and their numbers, if a statement finds rows by the number of their file
    */
  def of(
      snapshot: HudiSnapshot,
      schema: StructType,
      filters: Seq[Filter],
      partitionFilters: Seq[Filter],
      homes: Seq[(String, Int)] = Nil): RDD[Row] =
    asked(snapshot, schema, filters, partitionFilters, homes, decodes = false) match {
      case Right(rows) => rows
      case Left(_) => throw new IllegalStateException("Python gave blocks instead of rows")
    }

  /** The same, or the name of a file of blocks (`HudiBlocks`), if the caller `decodes` them. */
  def asked(
      snapshot: HudiSnapshot,
      schema: StructType,
      filters: Seq[Filter],
      partitionFilters: Seq[Filter],
      homes: Seq[(String, Int)],
      decodes: Boolean): Either[String, RDD[Row]] = {
    val found = new HudiChangeRows
    val blocks = Bridge.askWith(
      "read_changes",
      found,
      snapshot.place,
      snapshot.question ++ Seq(
        "schema" -> Json.of(schema),
        "filters" -> HudiFilters.told(filters),
        "partition_filters" -> HudiFilters.told(partitionFilters),
        "homes" -> homes.map { case (path, number) => Seq(path, number) },
        "decodes" -> decodes
      ): _*
    )
    Json.some(blocks).map(_.asText).toLeft(found.rows)
  }
}

/** Collects what Spark pushes down to a read of change data.
  *
  * Filters choose commits and operations, columns what is read of the files. Spark evaluates every
  * filter again.
  */
private[pyhudi] class HudiChangesBuilder(snapshot: HudiSnapshot, tableSchema: StructType)
    extends ScanBuilder
    with SupportsPushDownFilters
    with SupportsPushDownRequiredColumns {

  if (tableSchema != snapshot.schema)
    throw new HudiAnalysisException(
      "[CONFIG_ERROR] hoodie.datasource.query.incremental.format asks for change data of a table " +
        "by its name, whose columns Spark knows already. Write hudi_table_changes('db.trips', " +
        "'cdc', 'earliest') in SQL, or load the table by its path.",
      "ConfigError"
    )

  private var filters: Seq[Filter] = Nil
  private var required: StructType = tableSchema

  override def pushFilters(pushed: Array[Filter]): Array[Filter] = {
    filters = pushed.toSeq
    pushed
  }

  override def pushedFilters(): Array[Filter] = filters.toArray

  override def pruneColumns(schema: StructType): Unit = required = schema

  override def build(): Scan = HudiChangesScan(snapshot, required, filters)
}

/** A read whose rows come from Python's workers: change data, or the rows of a range by its change
  * logs. The workers decode logs and compare slices, for which Spark has no reader.
  *
  * @param partitionFilters what partitions have decided, which Spark does not evaluate again
  */
private[pyhudi] final case class HudiChangesScan(
    snapshot: HudiSnapshot,
    required: StructType,
    filters: Seq[Filter],
    partitionFilters: Seq[Filter] = Nil)
    extends V1Scan {

  override def readSchema(): StructType = required

  override def description(): String =
    s"pyhudi changes of ${snapshot.path}, " +
      s"PartitionFilters: ${partitionFilters.mkString("[", ", ", "]")}, " +
      s"PushedFilters: ${filters.mkString("[", ", ", "]")}, " +
      s"ReadSchema: ${required.catalogString}"

  override def toV1TableScan[T <: BaseRelation with TableScan](context: SQLContext): T =
    new HudiChangesRelation(context, this).asInstanceOf[T]

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new HudiMicroBatchStream(snapshot, required)

  def rows(): RDD[Row] = HudiChangeRows.of(snapshot, required, filters, partitionFilters)
}

private[pyhudi] final class HudiChangesRelation(
    override val sqlContext: SQLContext,
    scan: HudiChangesScan)
    extends BaseRelation
    with TableScan {

  override def schema: StructType = scan.required

  /** False: the rows are Spark's own already. */
  override def needConversion: Boolean = false

  override def buildScan(): RDD[Row] = scan.rows()

  /** What an executed plan shows of the scan. */
  override def toString: String = s"pyhudi changes of ${scan.snapshot.path}"
}
