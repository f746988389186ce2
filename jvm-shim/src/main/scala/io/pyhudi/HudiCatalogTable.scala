package io.pyhudi

import java.util

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogStorageFormat,
  CatalogTable,
  CatalogTableType,
  CatalogUtils
}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.pyhudi.{CatalogEntries, WrittenByStreams}
import org.apache.spark.sql.sources.{AlwaysTrue, Filter}
import org.apache.spark.sql.types.StructType

/** A Hudi table in the catalog: it can be written, and its rows can be changed. A DELETE of whole
  * partitions reads no rows.
  *
  * @param evaluated how often a statement that writes to it was evaluated before
  */
private[pyhudi] class HudiCatalogTable(
    override val target: HudiTarget,
    snapshot: HudiSnapshot,
    schema: StructType,
    properties: Map[String, String],
    val evaluated: Int = 0)
    extends HudiTable(snapshot, s"${target.catalog}.${target.table}", schema, properties)
    with SupportsWrite
    with SupportsDelete
    with SupportsRowLevelOperations
    with WrittenByStreams
    with HudiPartitions {

  override def capabilities(): util.Set[TableCapability] = HudiCatalogTable.writable

  /** The table as the sink of a stream finds it: by its path (see [[HudiSink]]). */
  override def v1Table: CatalogTable = {
    HudiSink.note(target)
    CatalogTable(
      target.named.getOrElse(TableIdentifier(target.path, Some(target.catalog))),
      CatalogTableType.EXTERNAL,
      CatalogStorageFormat.empty.copy(locationUri = Some(CatalogUtils.stringToURI(target.path))),
      schema,
      provider = Some(HudiDataSource.provider)
    )
  }

  /** Also the columns of a row's identity; Spark resolves them like columns that users name. */
  override def metadataColumns(): Array[MetadataColumn] =
    super.metadataColumns() :+ HudiColumns.hiddenFileNumber

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder =
    new HudiWriteBuilder(target, info, Some(this))

  override def newRowLevelOperationBuilder(
      info: RowLevelOperationInfo): RowLevelOperationBuilder =
    () => HudiRowChanges.on(this, info.command())

  override def now: Option[HudiCatalogTable] =
    newest.map(new HudiCatalogTable(target, _, schema, properties, evaluated + 1))

  override def truncateTable(): Boolean = {
    HudiCommits.ask("truncate_table", target.place)
    true
  }

  override def canDeleteWhere(filters: Array[Filter]): Boolean = Bridge.ask(
    "can_delete_where",
    HudiPlace(target.path),
    "filters" -> HudiCatalogTable.conditions(filters)).asBoolean

  override def deleteWhere(filters: Array[Filter]): Unit = {
    val conditions = HudiCatalogTable.conditions(filters)
    HudiCommits.ask("delete_where", target.place, "filters" -> conditions)
  }
}

/** The table of a write; each write request names it in this form.
  *
  * @param properties TBLPROPERTIES of the catalog, without Spark's reserved ones
  * @param entry its entry in a shared metastore, which Python updates after commits
  * @param named its name in Spark's own catalog
  */
private[pyhudi] final case class HudiTarget(
    path: String,
    catalog: String,
    table: String,
    properties: Map[String, String],
    entry: Option[Map[String, Any]] = None,
    named: Option[TableIdentifier] = None) {

  /** @param options the statement's options, with or without the path */
  def at(options: Map[String, String]): HudiPlace =
    HudiPlace(path, HudiDataSource.withoutPath(options), properties, entry)

  def place: HudiPlace = at(Map.empty)
}

private[pyhudi] object HudiTarget {

  def atPath(text: String, catalog: String): HudiTarget = {
    val path = HudiDataSource.located(text)
    HudiTarget(path, catalog, s"`$path`", Map.empty)
  }
}

private[pyhudi] object HudiCatalogTable {

  /** For INSERT, INSERT OVERWRITE and writeTo V1_BATCH_WRITE gives Python the whole DataFrame. Only
    * dynamic overwrite needs BATCH_WRITE and OVERWRITE_DYNAMIC.
    */
  val writable: util.Set[TableCapability] = util.EnumSet.of(
    TableCapability.BATCH_READ,
    TableCapability.MICRO_BATCH_READ,
    TableCapability.BATCH_WRITE,
    TableCapability.V1_BATCH_WRITE,
    TableCapability.OVERWRITE_BY_FILTER,
    TableCapability.OVERWRITE_DYNAMIC,
    TableCapability.TRUNCATE
  )

  def load(stored: CatalogTable, asOf: AsOf): HudiCatalogTable = {
    val snapshot = HudiSnapshot.describe(path(stored), readOptions(stored), asOf)
    new HudiCatalogTable(
      target(stored),
      snapshot,
      commented(snapshot.shown, stored.schema),
      snapshot.properties ++ (stored.properties -- ownOfHudi) ++ reserved(stored))
  }

  /** The properties that Apache Hudi and pyhudi keep in a metastore for themselves. */
  private val ownOfHudi = Set(
    "path",
    "hudi_writer_version",
    "last_commit_time_sync",
    "last_commit_completion_time_sync")

  /** OPTIONS of the table. Apache Hudi adds one of its own: whether logs are left out. */
  private def readOptions(stored: CatalogTable): Map[String, String] = {
    val (hudis, given) = HudiDataSource.withoutPath(stored.storage.properties)
      .partition(_._1 == "hoodie.query.as.ro.table")
    if (hudis.values.exists(_.toBoolean))
      given + ("hoodie.datasource.query.type" -> "read_optimized")
    else given
  }

  def target(stored: CatalogTable): HudiTarget = HudiTarget(
    path(stored),
    "spark_catalog",
    stored.identifier.database.toSeq.:+(stored.identifier.table).mkString("."),
    HudiDefinition.userProperties(stored.properties),
    HudiMetastore.entry(stored),
    Some(stored.identifier)
  )

  /** The location in the form for Python: Hadoop's text form, not percent-encoded. */
  def path(stored: CatalogTable): String = CatalogUtils.URIToString(stored.location)

  /** The place of a managed table, if it has nothing but the locks of a dropped one. */
  def leftByDropped(database: String, table: String): Option[String] = {
    val catalog = Compat.activeSession.sessionState.catalog
    val place = CatalogUtils.URIToString(CatalogEntries.location(catalog, database, table))
    Some(place).filter(path => Bridge.ask("holds_locks_alone", HudiPlace(path)).asBoolean)
  }

  def conditions(filters: Array[Filter]): Seq[Protocol.Filter] =
    HudiFilters.told(filters.toSeq.filterNot(_.isInstanceOf[AlwaysTrue]))

  /** The table's columns with comments and CHAR lengths, which only the catalog has. */
  def commented(actual: StructType, stored: StructType): StructType = {
    val known = stored.fields.map(f => f.name -> f).toMap
    StructType(actual.fields.map { field =>
      known.get(field.name)
        .filter(told => CatalogEntries.areOneType(told.dataType, field.dataType))
        .fold(field)(f => field.copy(metadata = f.metadata))
    })
  }

  /** Spark's reserved properties, which DESCRIBE and SHOW CREATE TABLE use. */
  private def reserved(stored: CatalogTable): Map[String, String] = {
    val managed = stored.tableType == CatalogTableType.MANAGED
    val kind =
      if (managed) TableCatalog.PROP_IS_MANAGED_LOCATION else TableCatalog.PROP_EXTERNAL
    Map(
      TableCatalog.PROP_PROVIDER -> HudiDataSource.provider,
      TableCatalog.PROP_LOCATION -> path(stored),
      TableCatalog.PROP_OWNER -> stored.owner,
      kind -> "true") ++ stored.comment.map(TableCatalog.PROP_COMMENT -> _)
  }
}
