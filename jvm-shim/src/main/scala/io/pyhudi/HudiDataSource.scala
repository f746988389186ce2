package io.pyhudi

import java.util

import scala.collection.JavaConverters._

import org.apache.spark.sql.{DataFrame, SQLContext, SaveMode}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.execution.streaming.{Sink, Source}
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.sources.{
  BaseRelation,
  CreatableRelationProvider,
  DataSourceRegister,
  StreamSinkProvider,
  StreamSourceProvider
}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("pyhudi")`: reads by path, and writes by path in all four save modes.
  *
  * Path tables do not declare BATCH_WRITE, so Spark falls back to `createRelation`. Only there
  * `ignore` and `errorifexists` work, and Python gets the whole DataFrame.
  */
class HudiDataSource
    extends TableProvider
    with DataSourceRegister
    with CreatableRelationProvider
    with StreamSinkProvider
    with StreamSourceProvider {

  // Spark asks one instance for schema, partitioning and table: Python is asked only once.
  private var described: Option[(util.Map[String, String], HudiSnapshot)] = None

  override def shortName(): String = "pyhudi"

  /** True: otherwise Spark would ask for the schema of a table that does not exist yet. */
  override def supportsExternalMetadata(): Boolean = true

  override def inferSchema(options: CaseInsensitiveStringMap): StructType =
    snapshot(options.asCaseSensitiveMap()).schema

  /** Known only after [[inferSchema]]: at CREATE TABLE Spark 4 asks before the table exists. */
  override def inferPartitioning(options: CaseInsensitiveStringMap): Array[Transform] =
    described.fold(Array.empty[Transform]) { case (_, known) =>
      HudiColumns.byValue(known.partitioning)
    }

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: util.Map[String, String]): Table =
    described.filter(_._1 == properties) match {
      case Some((_, known)) => HudiTable.byPath(known, schema)
      case None => new HudiUnreadTable(schema, partitioning, () => snapshot(properties))
    }

  /** An error if this session does not serve the name by which the source was found. */
  protected def requireServed(): Unit = ()

  override def createRelation(
      context: SQLContext,
      mode: SaveMode,
      parameters: Map[String, String],
      data: DataFrame): BaseRelation = {
    requireServed()
    val options = HudiDataSource.spelled(parameters)
    val path = HudiDataSource.path(options)
    val partitioning = options.get(DataSourceUtils.PARTITIONING_COLUMNS_KEY)
      .fold(Seq.empty[String])(DataSourceUtils.decodePartitioningColumns)
    val others = HudiDataSource.withoutPath(options) - DataSourceUtils.PARTITIONING_COLUMNS_KEY
    HudiOwnReads.write(
      "write",
      data,
      HudiPlace(path, others),
      Seq("mode" -> HudiDataSource.modeNames(mode), "partitioning" -> partitioning)
    )
    new BaseRelation {
      override def sqlContext: SQLContext = context
      override def schema: StructType = data.schema
    }
  }

  /** The sink of `df.writeStream`. Spark gives it whole batches only by this older interface. */
  override def createSink(
      context: SQLContext,
      parameters: Map[String, String],
      partitionColumns: Seq[String],
      outputMode: OutputMode): Sink = {
    requireServed()
    val options = HudiDataSource.spelled(parameters)
    val path = HudiDataSource.path(options)
    val own = HudiSink.ownOptions(options)
    val target = HudiSink.target(path)
    HudiStreamedTable.taken(path).foreach(_.take(own))
    new HudiSink(
      target,
      own,
      partitionColumns,
      complete = outputMode == OutputMode.Complete())
  }

  /** The columns of a table that Spark finds in a catalog as the source of a stream.
    *
    * Spark asks for them because a stream may write to the same table; it reads by [[getTable]].
    */
  override def sourceSchema(
      context: SQLContext,
      schema: Option[StructType],
      providerName: String,
      parameters: Map[String, String]): (String, StructType) = {
    val options = HudiDataSource.spelled(parameters)
    val columns = HudiSnapshot.describe(
      HudiDataSource.path(options),
      HudiDataSource.withoutPath(options),
      AsOf.Latest).schema
    HudiDataSource.provider -> columns
  }

  override def createSource(
      context: SQLContext,
      metadataPath: String,
      schema: Option[StructType],
      providerName: String,
      parameters: Map[String, String]): Source =
    throw new HudiAnalysisException(
      "[CONFIG_ERROR] spark.sql.streaming.disabledV2MicroBatchReaders names pyhudi's source, " +
        "which has no other form. Take it out of that setting.",
      "ConfigError"
    )

  private def snapshot(properties: util.Map[String, String]): HudiSnapshot =
    described.filter(_._1 == properties).map(_._2).getOrElse {
      requireServed()
      val options = properties.asScala.toMap
      val fresh = HudiSnapshot.describe(
        HudiDataSource.path(options),
        HudiDataSource.withoutPath(options),
        AsOf.Latest)
      described = Some(properties -> fresh)
      fresh
    }
}

private[pyhudi] object HudiDataSource {

  val provider = "pyhudi"

  /** Options as the user spelled them. */
  private def spelled(parameters: Map[String, String]): Map[String, String] = parameters match {
    case insensitive: CaseInsensitiveMap[_] => insensitive.originalMap.toMap[String, String]
    case plain => plain
  }

  /** Whether a provider's name is one of those that the session serves. */
  def isNamedBy(provider: String): Boolean =
    provider.equalsIgnoreCase(this.provider) ||
      provider.equalsIgnoreCase(HudiMetastore.provider) && HudiNamedSource.isServed

  private val modeNames = Map(
    SaveMode.Append -> "append",
    SaveMode.Overwrite -> "overwrite",
    SaveMode.ErrorIfExists -> "error",
    SaveMode.Ignore -> "ignore")

  /** The path in the options; no path, or several, is an error. */
  def path(options: Map[String, String]): String =
    options.collectFirst { case (key, value) if key.equalsIgnoreCase("path") => located(value) }
      .getOrElse(throw new HudiAnalysisException(
        "[CONFIG_ERROR] no path was given, or more than one: name one table, as in " +
          ".load(\"/data/trips\") or .save(\"/data/trips\").",
        "ConfigError"))

  /** A path as Spark itself reads it, with its file system. */
  def located(path: String): String =
    HadoopFiles.qualified(path, Compat.activeSession.sparkContext.hadoopConfiguration)

  def withoutPath(options: Map[String, String]): Map[String, String] =
    options.filter { case (key, _) => !key.equalsIgnoreCase("path") }
}
