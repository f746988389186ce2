package io.pyhudi

import java.util

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

  override def loadProcedure(ident: Identifier): UnboundProcedure =
    if (ident.namespace.sameElements(Seq("system")) &&
      ident.name.equalsIgnoreCase(HudiCleanFailedWrites.name())) HudiCleanFailedWrites
    else {
      throw new HudiAnalysisException(
        s"[CONFIG_ERROR] there is no procedure $ident: pyhudi has only " +
          s"system.${HudiCleanFailedWrites.name()}. Histories and files are tables, as in " +
          "SELECT * FROM trips.history.",
        "ConfigError"
      )
    }
}

/** Rolls back what failed writers left in a table, and lists the outcomes. */
private object HudiCleanFailedWrites extends UnboundProcedure with BoundProcedure {

  override def name(): String = "clean_failed_writes"

  override def description(): String = "Rolls back failed writes; living writers are only listed."

  override def bind(inputType: StructType): BoundProcedure = this

  override def parameters(): Array[ProcedureParameter] = Array(
    ProcedureParameter.in("table", StringType).comment("a table's name or its path").build())

  override def isDeterministic: Boolean = false

  override def call(input: InternalRow): util.Iterator[Scan] = {
    val named = Option(input.getUTF8String(0)).getOrElse(throw new HudiAnalysisException(
      s"[CONFIG_ERROR] NULL is not a table: ${name()} needs a table's name or its path.",
      "ConfigError"))
    val place = target(named.toString).place
    val told = HudiListing.told(name(), Bridge.ask("clean_failed_writes", place))
    util.List.of[Scan](told).iterator()
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
