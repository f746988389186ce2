package io.pyhudi

import java.util

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType, CatalogUtils}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.pyhudi.CatalogEntries
import org.apache.spark.sql.sources.{AlwaysTrue, Filter}
import org.apache.spark.sql.types.StructType

/** A Hudi table that the catalog knows: it can be written, and its rows be changed. A DELETE of
  * whole partitions reads no row.
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
    with HudiPartitions {

  override def capabilities(): util.Set[TableCapability] = HudiCatalogTable.writable

  /** The row's identity among them, which Spark resolves as it does what users name. */
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

/** The table that a write goes to, as every write request names it.
  *
  * @param properties TBLPROPERTIES of the catalog, without Spark's reserved ones
  * @param entry its entry in a shared metastore, which Python keeps up with the commits
  */
private[pyhudi] final case class HudiTarget(
    path: String,
    catalog: String,
    table: String,
    properties: Map[String, String],
    entry: Option[Map[String, Any]] = None) {

  /** @param options those of the statement, its path among them or not */
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

  /** INSERT, INSERT OVERWRITE and writeTo take V1_BATCH_WRITE's route, where Python gets the whole
    * DataFrame; dynamic overwrite alone insists on BATCH_WRITE and OVERWRITE_DYNAMIC.
    */
  val writable: util.Set[TableCapability] = util.EnumSet.of(
    TableCapability.BATCH_READ,
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

  /** What Apache Hudi and pyhudi note in a metastore for themselves. */
  private val ownOfHudi = Set(
    "path",
    "hudi_writer_version",
    "last_commit_time_sync",
    "last_commit_completion_time_sync")

  /** OPTIONS of the table. Apache Hudi keeps one of its own there: whether logs are left out. */
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
    HudiMetastore.entry(stored)
  )

  /** The location as Python gets all paths: Hadoop's text form, not percent-encoded. */
  def path(stored: CatalogTable): String = CatalogUtils.URIToString(stored.location)

  /** Where a managed table belongs, if a dropped one has left its locks there and nothing else. */
  def leftByDropped(database: String, table: String): Option[String] = {
    val catalog = Compat.activeSession.sessionState.catalog
    val place = CatalogUtils.URIToString(CatalogEntries.location(catalog, database, table))
    Some(place).filter(path => Bridge.ask("holds_locks_alone", HudiPlace(path)).asBoolean)
  }

  def conditions(filters: Array[Filter]): Seq[HudiFilters.Node] =
    filters.toSeq.filterNot(_.isInstanceOf[AlwaysTrue]).map(HudiFilters.toJson)

  /** The table's columns with comments and CHAR lengths, which only the catalog keeps. */
  private def commented(actual: StructType, stored: StructType): StructType = {
    val known = stored.fields.map(f => f.name -> f).toMap
    StructType(actual.fields.map { field =>
      known.get(field.name).filter(_.dataType == field.dataType)
        .fold(field)(f => field.copy(metadata = f.metadata))
    })
  }

  /** Spark's reserved properties, from which DESCRIBE and SHOW CREATE TABLE are made. */
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
