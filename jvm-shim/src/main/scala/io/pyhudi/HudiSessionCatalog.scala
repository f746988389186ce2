package io.pyhudi

import java.util

import scala.collection.JavaConverters._

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.analysis.{NoSuchTableException, TableAlreadyExistsException}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.pyhudi.{CatalogEntries, HudiAnalysisException}
import org.apache.spark.sql.types.StructType

/** Spark's session catalog with Hudi tables in it.
  *
  * The built-in catalog keeps name, location, properties and column comments. Python reads columns
  * and partitioning from the table itself. Tables of other providers pass through unchanged.
  * Entries in a shared Hive Metastore have Apache Hudi's form: see [[HudiMetastore]].
  */
class HudiSessionCatalog extends DelegatingCatalogExtension with HudiStaging with TablesLike {

  // ---- load

  override def loadTable(ident: Identifier): Table =
    listing(ident).getOrElse(load(ident, AsOf.Latest, super.loadTable(ident)))

  override def loadTable(ident: Identifier, version: String): Table =
    load(ident, AsOf.Version(version), super.loadTable(ident, version))

  override def loadTable(ident: Identifier, timestamp: Long): Table =
    load(ident, AsOf.Micros(timestamp), super.loadTable(ident, timestamp))

  private def load(ident: Identifier, asOf: AsOf, other: => Table): Table =
    entry(ident) match {
      case Some(stored) => loadStored(ident, stored, asOf)
      case None => other
    }

  /** The listing that `db.trips.history` or `trips.history` names, if no table has that name. */
  private def listing(ident: Identifier): Option[Table] =
    if (HudiListing.isNamedBy(ident) && !(ident.namespace.length == 1 && tableExists(ident))) {
      val database = ident.namespace.init match {
        case Array() => Array(Compat.activeSession.catalog.currentDatabase)
        case named => named
      }
      val table = Identifier.of(database, ident.namespace.last)
      if (database.length == 1 && tableExists(table)) {
        entry(table).map(stored => HudiListing.of(HudiCatalogTable.target(stored), ident))
      } else None
    } else None

  private def loadStored(ident: Identifier, stored: CatalogTable, asOf: AsOf): Table =
    try HudiCatalogTable.load(stored, asOf)
    catch {
      case cause: HudiAnalysisException if cause.errorClassName == "TableNotFound" =>
        throw new HudiAnalysisException(
          s"${cause.getMessage} But the catalog has $ident: its files were deleted, or it comes " +
            "from CREATE TABLE ... LIKE in a session without pyhudi's extension, which makes no " +
            "Hudi table. DROP TABLE removes it from the catalog.",
          cause.errorClassName
        )
    }

  /** The built-in catalog's entry of a Hudi table; `None` for everything else. */
  private def entry(ident: Identifier): Option[CatalogTable] =
    CatalogEntries.of(super.loadTable(ident)).filter(_.provider.exists(isServed))

  private def isServed(provider: String): Boolean =
    isHudi(provider) ||
      provider.equalsIgnoreCase(HudiMetastore.provider) && HudiMetastore.servesHudi

  private def isHudi(provider: String): Boolean =
    provider.equalsIgnoreCase(HudiDataSource.provider)

  /** Whether a table that a statement makes is one of ours. */
  private def isHudi(properties: util.Map[String, String]): Boolean =
    Option(properties.get(TableCatalog.PROP_PROVIDER)).exists { provider =>
      if (provider.equalsIgnoreCase(HudiMetastore.provider)) HudiNamedSource.requireServed()
      HudiDataSource.isNamedBy(provider)
    }

  // ---- create

  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table =
    if (isHudi(properties)) {
      create(ident, HudiDefinition(ident, columns, partitions, properties))
    } else {
      super.createTable(ident, columns, partitions, properties)
    }

  private def create(ident: Identifier, definition: HudiDefinition): Table =
    definition.location match {
      // An existing table is adopted: its own columns go into the catalog.
      case Some(path) =>
        val made = definition.create(path, Map.empty)
        try {
          val stored = register(ident, definition.as(made))
          noteForStream(ident, definition, stored, made)
        } catch {
          case cause: Throwable =>
            val target = HudiTarget(path, name(), definition.table, definition.userProperties)
            after(cause)(made.discarded(target))
        }
        loadTable(ident)
      // Spark accepts a managed table only while its folder is empty: the catalog comes first.
      case None =>
        val stored = register(ident, definition)
        try {
          val made = definition.create(HudiCatalogTable.path(stored), Map.empty)
          noteForStream(ident, definition, stored, made)
        } catch { case cause: Throwable => after(cause)(unregister(ident, stored)) }
        loadTable(ident)
    }

  private def noteForStream(
      ident: Identifier,
      definition: HudiDefinition,
      stored: CatalogTable,
      made: HudiDefinition.Made): Unit = {
    val target = HudiCatalogTable.target(stored)
    HudiStreamedTable.note(definition, target, made, () => unregister(ident, stored))
  }

  /** Makes the table's entry; returns the table as the catalog has it. */
  private def register(ident: Identifier, definition: HudiDefinition): CatalogTable = {
    HudiMetastore.entry(ident) match {
      case Some(entry) => HudiMetastore.register(entry, definition)
      case None => registerHere(ident, definition)
    }
    entry(ident).getOrElse(throw new NoSuchTableException(ident))
  }

  private def registerHere(ident: Identifier, definition: HudiDefinition): Unit = {
    // The locks of a dropped table stay, but Spark makes managed tables only in empty folders. So
    // an entry with that location is made first, and becomes managed afterwards.
    val left =
      if (definition.location.isDefined) None
      else HudiCatalogTable.leftByDropped(ident.namespace.last, ident.name)
    val properties = definition.properties ++ left.map(TableCatalog.PROP_LOCATION -> _)
    super.createTable(ident, definition.columns, definition.transforms, properties.asJava)
    if (left.isDefined) {
      entry(ident).foreach(CatalogEntries.manage(Compat.activeSession.sessionState.catalog, _))
    }
  }

  /** Removes an entry that was made here, but no file. If it has been replaced since, it stays. */
  private def unregister(ident: Identifier, stored: CatalogTable): Unit =
    if (known(ident).exists(CatalogEntries.isSame(_, stored))) forget(ident, stored)

  private def forget(ident: Identifier, stored: CatalogTable): Unit =
    HudiMetastore.entry(stored) match {
      case Some(_) => HudiMetastore.forget(HudiCatalogTable.target(stored))
      case None => CatalogEntries.forget(Compat.activeSession.sessionState.catalog, stored)
    }

  /** Cleans up after a failure; the user gets the first failure. */
  private def after(cause: Throwable)(tidy: => Any): Nothing = {
    try tidy
    catch { case NonFatal(more) => cause.addSuppressed(more) }
    throw cause
  }

  // ---- CREATE TABLE AS SELECT, REPLACE TABLE and saveAsTable

  override def stageCreate(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable =
    if (isHudi(properties)) {
      val definition = HudiDefinition(ident, columns, partitions, properties)
      val stored = register(ident, definition)
      new HudiCreatedTable(
        name(),
        definition,
        HudiCatalogTable.target(stored),
        () => unregister(ident, stored))
    } else {
      // With null Spark goes on with the loaded table: nothing is staged for other providers.
      super.createTable(ident, columns, partitions, properties)
      null
    }

  override def stageReplace(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable =
    entry(ident) match {
      case Some(stored) if isHudi(properties) =>
        val definition = HudiDefinition(ident, columns, partitions, properties)
        new HudiReplacedTable(
          name(),
          definition,
          HudiCatalogTable.load(stored, AsOf.Latest),
          () => redefine(stored, definition))
      case _ =>
        throw new HudiAnalysisException(
          s"[CONFIG_ERROR] $ident cannot be replaced by a table of another provider: drop it " +
            "first.",
          "ConfigError")
    }

  /** The entry gets the table's columns with what the definition says of them; a shared metastore
    * has them from Python.
    */
  private def redefine(stored: CatalogTable, definition: HudiDefinition): Unit =
    if (HudiMetastore.entry(stored).isEmpty) {
      val actual = HudiCatalogTable.load(stored, AsOf.Latest).snapshot.shown
      CatalogEntries.withDefaults(Seq(HudiDataSource.provider, HudiMetastore.provider)) {
        CatalogEntries.redefine(
          Compat.activeSession.sessionState.catalog,
          stored,
          HudiCatalogTable.commented(actual, definition.annotated))
      }
    }

  // ---- drop

  /** A managed table is dropped with its rows, under its lock; of others only the entry. */
  override def dropTable(ident: Identifier): Boolean =
    dropped(ident, managed(ident), super.dropTable(ident))

  /** With its rows, wherever they are. */
  override def purgeTable(ident: Identifier): Boolean =
    dropped(ident, known(ident), super.purgeTable(ident))

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = {
    if (cascade && namespaceExists(namespace)) {
      // Temporary views are among them, without a namespace.
      val tables = listTables(namespace).filter(_.namespace.sameElements(namespace))
      tables.filter(managed(_).isDefined).foreach(dropTable)
    }
    super.dropNamespace(namespace, cascade)
  }

  private def dropped(
      ident: Identifier,
      withRows: Option[CatalogTable],
      otherwise: => Boolean): Boolean =
    withRows match {
      case Some(stored) if deleted(stored) =>
        forget(ident, stored)
        true
      case _ => otherwise
    }

  private def deleted(stored: CatalogTable): Boolean =
    Bridge.ask("drop_table", HudiCatalogTable.target(stored).place).asBoolean

  private def managed(ident: Identifier): Option[CatalogTable] =
    known(ident).filter(_.tableType == CatalogTableType.MANAGED)

  private def known(ident: Identifier): Option[CatalogTable] =
    try entry(ident)
    catch { case _: NoSuchTableException => None }

  // ---- alter

  /** Python alters columns, in the table; the built-in catalog does the rest. */
  override def alterTable(ident: Identifier, changes: TableChange*): Table = {
    val stored = entry(ident)
    stored.foreach { stored =>
      changes.foreach(requireServed(ident, stored, _))
      HudiProperties.check(HudiCatalogTable.target(stored), changes)
      val columns = changes.flatMap(HudiColumnChanges.told)
      if (columns.nonEmpty) {
        val target = HudiCatalogTable.target(stored)
        Bridge.ask("alter_columns", target.place, "changes" -> columns)
      }
    }
    stored.flatMap(HudiMetastore.entry) match {
      case Some(_) => HudiMetastore.alter(HudiCatalogTable.target(stored.get), changes)
      case None => alterEntry(ident, stored, changes)
    }
    loadTable(ident)
  }

  override def renameTable(from: Identifier, to: Identifier): Unit = {
    val stored = entry(from)
    stored.flatMap(HudiMetastore.entry) match {
      case Some(_) if tableExists(to) => throw new TableAlreadyExistsException(to)
      case Some(shared) => HudiMetastore.rename(HudiCatalogTable.target(stored.get), shared, to)
      case None => renamed(stored.map(HudiCatalogTable.target), to)(super.renameTable(from, to))
    }
  }

  /** Also renames the table in its properties. These come first, since that can be refused. */
  private def renamed(target: Option[HudiTarget], to: Identifier)(inCatalog: => Unit): Unit = {
    def call(name: String): Option[String] = target.map { target =>
      Bridge.ask("rename_table", target.place, "to" -> name).asText
    }
    if (tableExists(to)) throw new TableAlreadyExistsException(to)
    val before = call(to.name)
    try inCatalog
    catch {
      case cause: Throwable =>
        before.foreach(call)
        throw cause
    }
  }

  /** The catalog keeps columns for other readers; it may lack one that a write has added. */
  private def alterEntry(
      ident: Identifier,
      stored: Option[CatalogTable],
      changes: Seq[TableChange]): Unit = {
    val placed = stored.fold(changes)(HudiColumnChanges.beforePartitions(_, changes))
    val said = stored.flatMap(keptComment(_, changes))
    val (columns, others) = placed.partition(_.isInstanceOf[TableChange.ColumnChange])
    def altered(): Unit = super.alterTable(ident, placed ++ said: _*)
    CatalogEntries.withDefaults(Seq(HudiDataSource.provider, HudiMetastore.provider)) {
      try {
        if (columns.isEmpty || !HudiMetastore.isHive) altered()
        else CatalogEntries.withoutHiveWarnings {
          altered()
          val catalog = Compat.activeSession.sessionState.catalog
          stored.foreach(CatalogEntries.alterColumns(catalog, _, columns))
        }
      } catch {
        case _: IllegalArgumentException if columns.nonEmpty =>
          super.alterTable(ident, others ++ said: _*)
      }
    }
  }

  /** The table's comment once more: Spark's catalog forgets it when anything else changes. */
  private def keptComment(stored: CatalogTable, changes: Seq[TableChange]): Option[TableChange] = {
    val changed = changes.exists {
      case set: TableChange.SetProperty => set.property == TableCatalog.PROP_COMMENT
      case gone: TableChange.RemoveProperty => gone.property == TableCatalog.PROP_COMMENT
      case _ => false
    }
    if (changed) None else stored.comment.map(TableChange.setProperty(TableCatalog.PROP_COMMENT, _))
  }

  private def requireServed(
      ident: Identifier,
      stored: CatalogTable,
      change: TableChange): Unit = change match {
    case retyped: TableChange.UpdateColumnType =>
      val column = retyped.fieldNames.mkString(".")
      CatalogEntries.declaredLength(stored.schema, retyped.fieldNames.toSeq).foreach { kind =>
        throw unserved(
          s"the column $column of $ident is ${kind.sql}, a length that the catalog alone keeps " +
            "and ALTER TABLE does not change. A table with a LOCATION can be dropped from the " +
            "catalog and created again over its files with another length")
      }
    case _: TableChange.ColumnChange => ()
    case set: TableChange.SetProperty if set.property == "collation" =>
      CatalogEntries.requirePlain(ident.toString, set.value)
    case set: TableChange.SetProperty if set.property == TableCatalog.PROP_LOCATION =>
      throw unserved(
        s"the location of $ident cannot be altered, since its data does not move. Drop the " +
          "table from the catalog and create it again at the other location")
    case _: TableChange.SetProperty | _: TableChange.RemoveProperty => ()
    case other =>
      throw unserved(s"${other.getClass.getSimpleName} is not supported for the Hudi table $ident")
  }

  private def unserved(text: String) =
    new HudiAnalysisException(s"[UNSUPPORTED_TABLE] $text.", "UnsupportedTable")
}
