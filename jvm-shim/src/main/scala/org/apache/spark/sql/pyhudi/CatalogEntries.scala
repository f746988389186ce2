package org.apache.spark.sql.pyhudi

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.LoggerContext
import org.apache.logging.log4j.core.config.Configurator
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Table, TableChange, V1Table}
import org.apache.spark.sql.internal.{SharedState, SQLConf}
import org.apache.spark.sql.types._

/** Parts of Spark's catalog that only Spark's own packages can see. */
object CatalogEntries {

  /** The session catalog's entry of a table; `None` if another catalog made it. */
  def of(table: Table): Option[CatalogTable] = table match {
    case V1Table(entry) => Some(entry)
    case _ => None
  }

  /** The table of an entry as Spark's own rules see it, such as one of a view. */
  def table(entry: CatalogTable): Table = V1Table(entry)

  def schema(columns: Array[Column]): StructType = CatalogV2Util.v2ColumnsToStructType(columns)

  def columns(schema: StructType): Array[Column] = CatalogV2Util.structTypeToV2Columns(schema)

  /** Keys of table properties that Spark uses itself, such as `provider` and `location`. */
  def isReserved(key: String): Boolean = CatalogV2Util.TABLE_RESERVED_PROPERTIES.contains(key)

  /** Whether two types are the same but for comments inside them, and for what may be null. */
  def areOneType(one: DataType, other: DataType): Boolean =
    DataType.equalsIgnoreNullability(one, other)

  /** Whether a column says NOT NULL, of itself and inside, where the `old` one does; a new column
    * says it nowhere.
    */
  def haveSameNulls(old: Option[StructField], field: StructField): Boolean =
    old.fold(nulls(field).forall(identity))(nulls(_) == nulls(field))

  private def nulls(field: StructField): Seq[Boolean] = field.nullable +: nulls(field.dataType)

  private def nulls(kind: DataType): Seq[Boolean] = kind match {
    case struct: StructType => struct.fields.toSeq.flatMap(nulls(_: StructField))
    case array: ArrayType => array.containsNull +: nulls(array.elementType)
    case map: MapType => map.valueContainsNull +: (nulls(map.keyType) ++ nulls(map.valueType))
    case _ => Nil
  }

  /** Refuses a default `collation` of a table, which new columns would lose. */
  def requirePlain(table: String, collation: String): Unit =
    if (isReserved("collation") && !collation.equalsIgnoreCase("UTF8_BINARY")) {
      throw new HudiAnalysisException(
        s"[UNSUPPORTED_TABLE] $table cannot have the default collation $collation, which a Hudi " +
          "table cannot keep: its columns would compare as plain text. Leave it out, or name " +
          "UTF8_BINARY.",
        "UnsupportedTable"
      )
    }

  /** The CHAR or VARCHAR that a column, or the part of one at `path`, was declared as. */
  def declaredLength(schema: StructType, path: Seq[String]): Option[DataType] = {
    val resolver = SQLConf.get.resolver
    val declared = StructType(schema.fields.map { field =>
      field.copy(dataType = CharVarcharUtils.getRawType(field.metadata).getOrElse(field.dataType))
    })
    declared.findNestedField(path, includeCollections = true, resolver)
      .map(_._2.dataType)
      .filter(kind => kind.isInstanceOf[CharType] || kind.isInstanceOf[VarcharType])
  }

  /** Does `work`, in which Spark takes these providers for ones whose columns may have defaults:
    * its catalog asks only after the table has changed.
    */
  def withDefaults[A](providers: Seq[String])(work: => A): A = {
    val key = SQLConf.DEFAULT_COLUMN_ALLOWED_PROVIDERS
    val own = SQLConf.get.clone()
    own.setConf(key, (own.getConf(key) +: providers).mkString(","))
    SQLConf.withExistingConf(own)(work)
  }

  /** Whether two looks at the catalog found the same, unchanged entry. */
  def isSame(one: CatalogTable, other: CatalogTable): Boolean = {
    def facts(entry: CatalogTable) = (
      entry.identifier,
      entry.createTime,
      entry.tableType,
      entry.storage.locationUri,
      entry.properties)
    facts(one) == facts(other)
  }

  /** Drops only the entry: the catalog would also delete the folder of a managed table. */
  def forget(catalog: SessionCatalog, entry: CatalogTable): Unit = {
    if (entry.tableType == CatalogTableType.MANAGED) {
      catalog.alterTable(entry.copy(tableType = CatalogTableType.EXTERNAL))
    }
    catalog.dropTable(entry.identifier, ignoreIfNotExists = true, purge = false)
  }

  /** Hadoop's settings with those of hive-site.xml, which say where the metastore is. */
  def hadoopConf(shared: SharedState): Configuration = shared.hadoopConf

  /** Turns an entry with a location into one of a managed table, as if the place had been free. */
  def manage(catalog: SessionCatalog, entry: CatalogTable): Unit =
    catalog.alterTable(entry.copy(tableType = CatalogTableType.MANAGED))

  /** Changes the columns that Hive's catalog keeps of an entry: it does so only in a call of its
    * own, not when Spark alters the table.
    */
  def alterColumns(
      catalog: SessionCatalog,
      entry: CatalogTable,
      changes: Seq[TableChange]): Unit = {
    val altered =
      CatalogV2Util.applySchemaChanges(entry.schema, changes, entry.provider, "ALTER TABLE")
    // From Spark 4.1 on Spark's own statement has done it.
    redefine(catalog, entry, altered)
  }

  /** Gives an entry these columns. */
  def redefine(catalog: SessionCatalog, entry: CatalogTable, columns: StructType): Unit =
    if (catalog.getTableMetadata(entry.identifier).schema != columns) {
      val data = columns.filterNot(field => entry.partitionColumnNames.contains(field.name))
      withoutHiveWarnings {
        catalog.externalCatalog
          .alterTableDataSchema(entry.database, entry.identifier.table, StructType(data))
      }
    }

  /** Who says so: Spark, with the trace, and Hive in this process. */
  private val warners = Seq(
    "org.apache.spark.sql.hive.HiveExternalCatalog",
    "org.apache.hadoop.hive.metastore.HiveAlterHandler")

  /** Does `work` while nobody says, in a hundred lines, that Hive cannot read the columns of an
    * entry: it never can, if Spark alone has made the entry. Failures are still thrown.
    */
  def withoutHiveWarnings[A](work: => A): A = {
    val restored = warners.map(silenced)
    try work
    finally restored.foreach(_())
  }

  private def silenced(logger: String): () => Unit =
    try {
      val loggers = LogManager.getContext(false).asInstanceOf[LoggerContext].getConfiguration
      val known = loggers.getLoggerConfig(logger)
      val before = if (known.getName == logger) known.getLevel else null
      Configurator.setLevel(logger, Level.OFF)
      () => Configurator.setLevel(logger, before)
    } catch {
      // Another library writes the logs.
      case _: LinkageError | _: ClassCastException => () => ()
    }

  /** The place of a managed table with this name. */
  def location(catalog: SessionCatalog, database: String, table: String): URI =
    catalog.defaultTablePath(TableIdentifier(table, Some(database)))

  /** An error if the place of a managed table with this name is taken. */
  def requireFree(catalog: SessionCatalog, database: String, table: String): Unit =
    catalog.validateTableLocation(
      CatalogTable(
        TableIdentifier(table, Some(database)),
        CatalogTableType.MANAGED,
        CatalogStorageFormat.empty,
        new StructType()))
}
