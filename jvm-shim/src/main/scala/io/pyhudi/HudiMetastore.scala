package io.pyhudi

import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogUtils}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog, TableChange}
import org.apache.spark.sql.pyhudi.{CatalogEntries, HudiAnalysisException}

/** Tables in a Hive Metastore that other sessions also use. They are registered as by Apache Hudi,
  * with its provider and its input format, so that these sessions find them by name.
  *
  * Python makes and changes such entries. Spark's own client would need Hudi's input format on the
  * class path for that; it reads and drops them.
  */
private[pyhudi] object HudiMetastore {

  /** The provider of Apache Hudi's tables. */
  val provider = "hudi"

  /** Whether pyhudi serves tables of that provider: not if Apache Hudi's own extension is in the
    * session.
    */
  def servesHudi: Boolean =
    !Compat.conf.getConfString("spark.sql.extensions", "").contains("HoodieSparkSessionExtension")

  /** Whether Spark keeps the catalog in a Hive Metastore, be it shared or embedded. */
  def isHive: Boolean =
    Compat.conf.getConfString("spark.sql.catalogImplementation", "in-memory") == "hive"

  /** The addresses of the metastore that this session shares with others; none for a catalog in
    * memory, an embedded metastore, or one behind Kerberos or TLS.
    */
  private def uris: Seq[String] = {
    val conf = CatalogEntries.hadoopConf(Compat.activeSession.sharedState)
    def set(keys: String*) = keys.exists(conf.getBoolean(_, false))
    val plain = !set(
      "hive.metastore.sasl.enabled",
      "hive.metastore.use.SSL",
      "metastore.sasl.enabled",
      "metastore.use.SSL")
    if (isHive && servesHudi && plain) {
      conf.getTrimmedStrings("hive.metastore.uris").toSeq
    } else Nil
  }

  /** The entry of a new table, for Python; `None` if only Spark has entries. */
  def entry(ident: Identifier): Option[Map[String, Any]] = named(ident.namespace.last, ident.name)

  /** The entry of a table, for Python; `None` if it is registered only for Spark. */
  def entry(stored: CatalogTable): Option[Map[String, Any]] =
    if (stored.provider.exists(_.equalsIgnoreCase(provider))) {
      named(stored.database, stored.identifier.table)
    } else None

  private def named(database: String, table: String): Option[Map[String, Any]] =
    Some(uris).filter(_.nonEmpty).map { known =>
      Map("uris" -> known, "database" -> database, "table" -> table)
    }

  def register(entry: Map[String, Any], definition: HudiDefinition): Unit = {
    val path = definition.location.getOrElse {
      val (database, table) = (entry("database").toString, entry("table").toString)
      HudiCatalogTable.leftByDropped(database, table).getOrElse {
        val catalog = Compat.activeSession.sessionState.catalog
        CatalogEntries.requireFree(catalog, database, table)
        CatalogUtils.URIToString(CatalogEntries.location(catalog, database, table))
      }
    }
    val comment = definition.properties.get(TableCatalog.PROP_COMMENT).map("comment" -> _)
    Bridge.ask(
      "register_table",
      HudiPlace(
        path,
        properties = definition.userProperties ++ comment,
        entry = Some(entry)),
      "schema" -> Json.of(definition.annotated),
      "partitioning" -> definition.partitioning,
      "managed" -> definition.location.isEmpty
    )
    ()
  }

  /** Removes the entry but not the files; these are removed in another step. */
  def forget(target: HudiTarget): Unit = {
    Bridge.ask("forget_entry", target.place)
    ()
  }

  /** The changes of an ALTER TABLE other than columns, which Python has already changed. */
  def alter(target: HudiTarget, changes: Seq[TableChange]): Unit = {
    val (settings, dropped) = HudiProperties.of(changes)
    val comments = changes.collect {
      case said: TableChange.UpdateColumnComment => top(said) -> said.newComment
      case add: TableChange.AddColumn if add.comment != null => top(add) -> add.comment
    }
    if (settings.nonEmpty || dropped.nonEmpty || comments.nonEmpty) {
      Bridge.ask(
        "alter_entry",
        target.place,
        "given" -> settings,
        "dropped" -> dropped,
        "comments" -> comments.toMap)
      ()
    }
  }

  private def top(change: TableChange.ColumnChange): String = change.fieldNames match {
    case Array(column) => column
    case nested =>
      throw new HudiAnalysisException(
        s"[UNSUPPORTED_TABLE] a Hive Metastore keeps comments only of whole columns, not of " +
          s"${nested.mkString(".")}.",
        "UnsupportedTable")
  }

  /** @throws HudiAnalysisException if `to` is in another database */
  def rename(target: HudiTarget, entry: Map[String, Any], to: Identifier): Unit = {
    if (to.namespace.lastOption.exists(_ != entry("database"))) {
      throw new HudiAnalysisException(
        s"[CONFIG_ERROR] ${target.table} cannot be renamed into another database, $to: name it " +
          "in its own.",
        "ConfigError")
    }
    Bridge.ask("rename_entry", target.place, "to" -> to.name)
    ()
  }
}
