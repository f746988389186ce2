package io.pyhudi

import java.util

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.MapData
import org.apache.spark.sql.connector.catalog.{Identifier, ProcedureCatalog, TableCatalog}
import org.apache.spark.sql.connector.catalog.procedures._
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.types.{BooleanType, MapType, StringType, StructType}

/** The procedures for CALL in the catalog of paths, as in
  * pyhudi.system.clean_failed_writes(table => 'trips').
  */
private[pyhudi] trait HudiProcedures extends ProcedureCatalog {

  /** For SHOW PROCEDURES, which came with Spark 4.1: on 4.0 nobody asks. */
  def listProcedures(namespace: Array[String]): Array[Identifier] =
    if (namespace.isEmpty || namespace.sameElements(HudiProcedures.Namespace))
      HudiProcedures.all.map(each => Identifier.of(HudiProcedures.Namespace, each.name)).toArray
    else Array.empty

  override def loadProcedure(ident: Identifier): UnboundProcedure =
    HudiProcedures.all
      .filter(_ => ident.namespace.sameElements(HudiProcedures.Namespace))
      .find(_.name.equalsIgnoreCase(ident.name))
      .getOrElse(throw new HudiAnalysisException(
        s"[CONFIG_ERROR] there is no procedure $ident: pyhudi has only " +
          HudiProcedures.all.map(each => s"system.${each.name}").mkString(", ") +
          ". Histories and files are tables, as in SELECT * FROM trips.history.",
        "ConfigError"
      ))
}

private[pyhudi] object HudiProcedures {

  val Namespace: Array[String] = Array("system")

  val all: Seq[HudiProcedure] =
    Seq(
      new HudiService("archive", "Moves old instants into the archived timeline."),
      new HudiService("clean", "Deletes versions of files that no retained commit reads."),
      new HudiService("cluster", "Puts rows into fewer files, or into better sorted ones."),
      new HudiService(
        "remove_orphans",
        "Moves files that belong to no commit into the table's bin, if dry_run is false.",
        looksOnly = true),
      HudiCleanFailedWrites,
      HudiHealth,
      HudiRestore,
      HudiSavepoint,
      HudiDeleteSavepoint,
      HudiSyncPartitions,
      HudiWhy
    )

  /** An argument that is a text; none for NULL. */
  def text(input: InternalRow, at: Int): Option[String] =
    Option.when(!input.isNullAt(at))(input.getUTF8String(at).toString)
}

/** A procedure on one table, which answers with rows. */
private[pyhudi] abstract class HudiProcedure(
    override val name: String,
    override val description: String)
    extends UnboundProcedure
    with BoundProcedure {

  /** Python's answer for the table; `input` has the arguments, the table's name first. */
  def told(place: HudiPlace, input: InternalRow): JsonNode

  /** The parameters behind the table. */
  def more: Seq[ProcedureParameter] = Nil

  override def bind(inputType: StructType): BoundProcedure = this

  override def parameters(): Array[ProcedureParameter] =
    (ProcedureParameter
      .in("table", StringType)
      .comment("a table's name or its path")
      .build() +: more).toArray

  override def isDeterministic: Boolean = false

  override def call(input: InternalRow): util.Iterator[Scan] = {
    val named = Option(input.getUTF8String(0)).getOrElse(throw new HudiAnalysisException(
      s"[CONFIG_ERROR] NULL is not a table: $name needs a table's name or its path.",
      "ConfigError"))
    val rows = HudiListing.told(name, told(target(named.toString).place, input))
    util.List.of[Scan](rows).iterator()
  }

  private def target(named: String): HudiTarget =
    if (named.contains('/')) HudiTarget.atPath(named, HudiDataSource.provider)
    else {
      val session = Compat.activeSession.sessionState
      val parts = session.sqlParser.parseMultipartIdentifier(named)
      val (catalog, names) = parts match {
        case Seq(table) => "spark_catalog" -> Seq(session.catalog.getCurrentDatabase, table)
        case Seq(_, _) => "spark_catalog" -> parts
        case _ => parts.head -> parts.tail
      }
      val found = session.catalogManager.catalog(catalog) match {
        case tables: TableCatalog =>
          tables.loadTable(Identifier.of(names.init.toArray, names.last))
        case _ => null
      }
      found match {
        case table: HudiCatalogTable => table.target
        case _ =>
          throw new HudiAnalysisException(
            s"[TABLE_NOT_FOUND] $named is not a pyhudi table.",
            "TableNotFound")
      }
    }
}

/** A service that takes options, and lists each file or instant with its fate. */
private[pyhudi] class HudiService(name: String, description: String, looksOnly: Boolean = false)
    extends HudiProcedure(name, description) {

  override def more: Seq[ProcedureParameter] = Seq(
    ProcedureParameter
      .in("dry_run", BooleanType)
      .defaultValue(looksOnly.toString)
      .comment("only lists what would happen")
      .build(),
    ProcedureParameter
      .in("options", MapType(StringType, StringType))
      .defaultValue("CAST(map() AS MAP<STRING, STRING>)")
      .comment("hoodie.* options of a write, as for the same service in Python")
      .build()
  )

  override def told(place: HudiPlace, input: InternalRow): JsonNode = {
    val dryRun = if (input.isNullAt(1)) looksOnly else input.getBoolean(1)
    val settings = if (input.isNullAt(2)) Map.empty[String, String] else texts(input.getMap(2))
    Bridge.ask("serve", place, "service" -> name, "dry_run" -> dryRun, "settings" -> settings)
  }

  private def texts(map: MapData): Map[String, String] =
    map
      .keyArray()
      .toObjectArray(StringType)
      .zip(map.valueArray().toObjectArray(StringType))
      .collect { case (key, value) if value != null => key.toString -> value.toString }
      .toMap
}

/** Keeps a commit readable, and its files from every clean. */
private object HudiSavepoint
    extends HudiProcedure("savepoint", "Keeps a commit readable until its savepoint is deleted.") {

  override def more: Seq[ProcedureParameter] = Seq(
    ProcedureParameter
      .in("instant", StringType)
      .defaultValue("NULL")
      .comment("a commit; the newest by default")
      .build(),
    ProcedureParameter
      .in("comment", StringType)
      .defaultValue("''")
      .comment("what it is for")
      .build()
  )

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask(
      "savepoint",
      place,
      "instant" -> HudiProcedures.text(input, 1).orNull,
      "comment" -> HudiProcedures.text(input, 2).getOrElse(""))
}

/** Deletes a savepoint, and lists those that are left. */
private object HudiDeleteSavepoint
    extends HudiProcedure("delete_savepoint", "Lets a clean delete the files of a savepoint.") {

  override def more: Seq[ProcedureParameter] = Seq(
    ProcedureParameter.in("instant", StringType).comment("the commit that it keeps").build())

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("delete_savepoint", place, "instant" -> HudiProcedures.text(input, 1).getOrElse(""))
}

/** Brings a table back to a commit, and lists what that undoes. */
private object HudiRestore
    extends HudiProcedure("restore", "Undoes all commits after one, and deletes their files.") {

  override def more: Seq[ProcedureParameter] = Seq(
    ProcedureParameter
      .in("instant", StringType)
      .comment("the last commit that stays")
      .build(),
    ProcedureParameter
      .in("dry_run", BooleanType)
      .defaultValue("false")
      .comment("only lists what would be undone")
      .build(),
    ProcedureParameter
      .in("fence", BooleanType)
      .defaultValue("false")
      .comment("rolls running writes back first")
      .build()
  )

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask(
      "restore",
      place,
      "instant" -> HudiProcedures.text(input, 1).getOrElse(""),
      "dry_run" -> (!input.isNullAt(2) && input.getBoolean(2)),
      "fence" -> (!input.isNullAt(3) && input.getBoolean(3))
    )
}

/** Rolls back what failed writers left in a table, and lists the outcomes. */
private object HudiCleanFailedWrites
    extends HudiProcedure(
      "clean_failed_writes",
      "Rolls back failed writes; living writers are only listed.") {

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("clean_failed_writes", place)
}

/** Has a Hive Metastore list the partitions that a table has, and lists the changes. */
private object HudiSyncPartitions
    extends HudiProcedure(
      "sync_partitions",
      "Adds and drops partitions of the table's entry in a Hive Metastore.") {

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("sync_partitions", place, "add" -> true, "drop" -> true)
}

/** Measures a table, and names what mends it: the rows of trips.health. */
private object HudiHealth
    extends HudiProcedure("health", "Measures a table, and names what mends each part.") {

  override def told(place: HudiPlace, input: InternalRow): JsonNode =
    Bridge.ask("inspect", place, "listing" -> "health")
}

/** Lists every commit and file that touched a record key. */
private object HudiWhy
    extends HudiProcedure("why", "Lists every commit and file that touched a record key.") {

  override def more: Seq[ProcedureParameter] = Seq(
    ProcedureParameter
      .in("key", StringType)
      .comment("as in _hoodie_record_key: 7, or id:1,ts:2")
      .build(),
    ProcedureParameter
      .in("partition", StringType)
      .defaultValue("CAST(NULL AS STRING)")
      .comment("only this partition's path")
      .build(),
    ProcedureParameter
      .in("carried", BooleanType)
      .defaultValue("false")
      .comment("also the slices that only copied the row")
      .build()
  )

  override def told(place: HudiPlace, input: InternalRow): JsonNode = {
    val key = HudiProcedures.text(input, 1).getOrElse(throw new HudiAnalysisException(
      "[CONFIG_ERROR] NULL is not a record key: why needs a key as in _hoodie_record_key.",
      "ConfigError"))
    val partition = HudiProcedures.text(input, 2)
    val carried = !input.isNullAt(3) && input.getBoolean(3)
    Bridge.ask("why", place, "key" -> key, "partition" -> partition, "carried" -> carried)
  }
}
