package io.pyhudi

import java.util

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{Identifier, ProcedureCatalog, TableCatalog}
import org.apache.spark.sql.connector.catalog.procedures._
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.types.{StringType, StructType}

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
          HudiProcedures.all.map(each => s"system.${each.name}").mkString(" and ") +
          ". Histories and files are tables, as in SELECT * FROM trips.history.",
        "ConfigError"
      ))
}

private[pyhudi] object HudiProcedures {

  val Namespace: Array[String] = Array("system")

  val all: Seq[HudiProcedure] = Seq(HudiCleanFailedWrites, HudiSyncPartitions)
}

/** A procedure on one table, which answers with rows. */
private[pyhudi] abstract class HudiProcedure(
    override val name: String,
    override val description: String)
    extends UnboundProcedure
    with BoundProcedure {

  /** Python's answer for the table. */
  def told(place: HudiPlace): JsonNode

  override def bind(inputType: StructType): BoundProcedure = this

  override def parameters(): Array[ProcedureParameter] = Array(
    ProcedureParameter.in("table", StringType).comment("a table's name or its path").build())

  override def isDeterministic: Boolean = false

  override def call(input: InternalRow): util.Iterator[Scan] = {
    val named = Option(input.getUTF8String(0)).getOrElse(throw new HudiAnalysisException(
      s"[CONFIG_ERROR] NULL is not a table: $name needs a table's name or its path.",
      "ConfigError"))
    val rows = HudiListing.told(name, told(target(named.toString).place))
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

/** Rolls back what failed writers left in a table, and lists the outcomes. */
private object HudiCleanFailedWrites
    extends HudiProcedure(
      "clean_failed_writes",
      "Rolls back failed writes; living writers are only listed.") {

  override def told(place: HudiPlace): JsonNode = Bridge.ask("clean_failed_writes", place)
}

/** Has a Hive Metastore list the partitions that a table has, and lists the changes. */
private object HudiSyncPartitions
    extends HudiProcedure(
      "sync_partitions",
      "Adds and drops partitions of the table's entry in a Hive Metastore.") {

  override def told(place: HudiPlace): JsonNode =
    Bridge.ask("sync_partitions", place, "add" -> true, "drop" -> true)
}
