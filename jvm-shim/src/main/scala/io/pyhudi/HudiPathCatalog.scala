package io.pyhudi

import java.util

import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Tables by their paths, in SQL: pyhudi.`s3a://bucket/trips`.
  *
  * The catalog stores nothing: a table exists if there is one at the path, and it ends with its
  * folder.
  */
class HudiPathCatalog extends HudiStaging with HudiProcedures {

  private var called = HudiDataSource.provider

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = called = name

  override def name(): String = called

  override def listTables(namespace: Array[String]): Array[Identifier] = Array.empty

  override def tableExists(ident: Identifier): Boolean =
    isPath(ident) && Bridge.ask("exists", HudiPlace(located(ident))).asBoolean

  // ---- load

  override def loadTable(ident: Identifier): Table =
    if (HudiListing.isNamedBy(ident)) HudiListing.of(target(listed(ident)), ident)
    else load(ident, AsOf.Latest)

  override def loadTable(ident: Identifier, version: String): Table =
    load(ident, AsOf.Version(version))

  override def loadTable(ident: Identifier, timestamp: Long): Table =
    load(ident, AsOf.Micros(timestamp))

  // No NoSuchTableException: Spark would go on to look for a file source called pyhudi.
  private def load(ident: Identifier, asOf: AsOf): HudiCatalogTable = {
    val known = target(ident)
    val snapshot = HudiSnapshot.describe(known.path, Map.empty, asOf)
    new HudiCatalogTable(known, snapshot, snapshot.shown, snapshot.properties)
  }

  // ---- create and replace

  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table = {
    val defined = definition(ident, columns, partitions, properties)
    val made = defined.create(located(ident), Map.empty, adopt = false)
    HudiStreamedTable.note(defined, target(ident), made, () => ())
    loadTable(ident)
  }

  override def stageCreate(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable = {
    val defined = definition(ident, columns, partitions, properties)
    new HudiCreatedTable(called, defined, target(ident), () => ())
  }

  override def stageReplace(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable =
    new HudiReplacedTable(
      called,
      definition(ident, columns, partitions, properties),
      load(ident, AsOf.Latest),
      () => ())

  private def definition(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): HudiDefinition = {
    val path = located(ident)
    val provider = Option(properties.get(TableCatalog.PROP_PROVIDER))
    val location = Option(properties.get(TableCatalog.PROP_LOCATION))
    if (provider.exists(!HudiDataSource.isNamedBy(_))) {
      throw unserved(s"$called.`$path` is a pyhudi table, not one of ${provider.get}")
    }
    if (location.exists(HudiDataSource.located(_) != path)) {
      throw unserved(s"$called.`$path` lies where its name says, not at ${location.get}")
    }
    val named = Identifier.of(Array.empty, path.split('/').last)
    HudiDefinition(named, columns, partitions, properties)
  }

  // ---- alter and drop

  override def alterTable(ident: Identifier, changes: TableChange*): Table = {
    val table = load(ident, AsOf.Latest)
    val columns = changes.flatMap(HudiColumnChanges.told)
    if (columns.isEmpty || changes.exists(!_.isInstanceOf[TableChange.ColumnChange])) {
      throw unserved(
        s"$called.`${table.target.path}` is in no catalog that could keep its properties: set " +
          "options in the session, or give it a name with CREATE TABLE ... LOCATION")
    }
    Bridge.ask("alter_columns", table.target.place, "changes" -> columns)
    loadTable(ident)
  }

  override def dropTable(ident: Identifier): Boolean = {
    load(ident, AsOf.Latest)
    throw unserved(
      s"${ident.name} is not in the catalog, so nothing was dropped: delete the folder, if " +
        "nobody needs it")
  }

  override def purgeTable(ident: Identifier): Boolean = dropTable(ident)

  override def renameTable(from: Identifier, to: Identifier): Unit =
    throw unserved(s"${from.name} is a path, and a path has no other name")

  private def target(ident: Identifier): HudiTarget =
    HudiTarget.atPath(located(ident), called)

  private def located(ident: Identifier): String =
    if (isPath(ident)) HudiDataSource.located(ident.name)
    else {
      throw new HudiAnalysisException(
        s"[TABLE_NOT_FOUND] $called.$ident is not a path: the catalog $called has tables by " +
          s"their paths, as in $called.`/data/trips`. Tables with names are in spark_catalog.",
        "TableNotFound"
      )
    }

  /** The table whose listing `ident` names, as in pyhudi.`/data/trips`.history. */
  private def listed(ident: Identifier): Identifier =
    Identifier.of(ident.namespace.init, ident.namespace.last)

  private def isPath(ident: Identifier): Boolean =
    ident.namespace.isEmpty && ident.name.contains('/')

  private def unserved(text: String) =
    new HudiAnalysisException(s"[UNSUPPORTED_TABLE] $text.", "UnsupportedTable")
}
