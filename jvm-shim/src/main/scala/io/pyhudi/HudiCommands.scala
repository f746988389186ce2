package io.pyhudi

import scala.collection.JavaConverters._

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{ResolvedPartitionSpec, TableAlreadyExistsException}
import org.apache.spark.sql.catalyst.catalog.{CatalogTableType, CatalogUtils}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, LeafRunnableCommand}
import org.apache.spark.sql.pyhudi.{CatalogEntries, HudiAnalysisException}
import org.apache.spark.sql.types.StringType

/** SHOW PARTITIONS: the folders, as Apache Hudi shows them; none for a table without partitions. */
private[pyhudi] case class HudiShowPartitions(
    table: HudiCatalogTable,
    spec: Option[ResolvedPartitionSpec])
    extends LeafRunnableCommand {

  override val output: Seq[Attribute] =
    Seq(AttributeReference("partition", StringType, nullable = false)())

  override def run(session: SparkSession): Seq[Row] =
    spec.fold(table.folders)(wanted => table.foldersOf(wanted.names.toArray, wanted.ident))
      .sorted.map(Row(_))
}

/** SHOW COLUMNS, which Spark has for its own tables only. */
private[pyhudi] case class HudiShowColumns(table: HudiCatalogTable) extends LeafRunnableCommand {

  override val output: Seq[Attribute] =
    Seq(AttributeReference("col_name", StringType, nullable = false)())

  override def run(session: SparkSession): Seq[Row] = table.schema.fieldNames.toSeq.map(Row(_))
}

/** MSCK REPAIR TABLE and RECOVER PARTITIONS: has a Hive Metastore list the table's partitions. In a
  * catalog that lists none, nothing is left to do.
  */
private[pyhudi] case class HudiRepair(table: HudiCatalogTable, add: Boolean, drop: Boolean)
    extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    if (table.partitionSchema().isEmpty) {
      throw new HudiAnalysisException(
        s"[NOT_A_PARTITIONED_TABLE] ${table.target.table} is not partitioned, so there is " +
          "nothing to repair and nothing was changed.",
        "ConfigError")
    }
    if (table.target.entry.isDefined || HudiMetastore.isHive) {
      Bridge.ask("sync_partitions", table.target.place, "add" -> add, "drop" -> drop)
    }
    Nil
  }
}

/** ALTER TABLE with changes that Spark would refuse; Python judges them. */
private[pyhudi] case class HudiAlter(
    catalog: TableCatalog,
    ident: Identifier,
    changes: Seq[TableChange])
    extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    catalog.alterTable(ident, changes: _*)
    Nil
  }
}

/** CREATE TABLE ... LIKE ... USING pyhudi: an empty table with the columns, partitioning and, of a
  * Hudi table, the properties of another one.
  */
private[pyhudi] case class HudiTableLike(like: CreateTableLikeCommand) extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val catalog =
      Compat.activeSession.sessionState.catalogManager.catalog("spark_catalog").asInstanceOf[
        TableCatalog]
    def named(name: TableIdentifier): Identifier = Identifier.of(
      Array(name.database.getOrElse(session.catalog.currentDatabase)),
      name.table)
    val ident = named(like.targetTable)
    val location = like.fileFormat.locationUri.map { uri =>
      TableCatalog.PROP_LOCATION -> CatalogUtils.URIToString(uri)
    }
    if (!catalog.tableExists(ident)) {
      val known =
        session.sessionState.catalog.getTempViewOrPermanentTableMetadata(like.sourceTable)
      val source =
        if (known.tableType == CatalogTableType.VIEW) CatalogEntries.table(known)
        else catalog.loadTable(named(like.sourceTable))
      HudiTableLike.create(catalog, ident, source, like.properties ++ location)
    } else if (!like.ifNotExists) throw new TableAlreadyExistsException(ident)
    Nil
  }
}

private[pyhudi] object HudiTableLike {

  /** The new table; `stated` has what its statement says of it. */
  def create(
      catalog: TableCatalog,
      ident: Identifier,
      source: Table,
      stated: Map[String, String]): Table = {
    val settings = source match {
      case hudi: HudiCatalogTable => HudiDefinition.userProperties(hudi.properties.asScala.toMap)
      case _ => Map.empty[String, String]
    }
    val own = Set("hoodie.table.name", "hoodie.database.name")
    val properties = (settings -- own) ++ stated +
      (TableCatalog.PROP_PROVIDER -> HudiDataSource.provider)
    catalog.createTable(ident, source.columns, source.partitioning, properties.asJava)
  }
}
