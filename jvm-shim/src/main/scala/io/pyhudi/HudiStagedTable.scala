package io.pyhudi

import java.util

import scala.collection.JavaConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.pyhudi.{CatalogEntries, HudiAnalysisException}
import org.apache.spark.sql.sources.InsertableRelation
import org.apache.spark.sql.types.StructType

/** A staged table, into which CREATE TABLE AS SELECT and saveAsTable write. */
private[pyhudi] abstract class HudiStagedTable(catalog: String, definition: HudiDefinition)
    extends StagedTable
    with SupportsWrite {

  override def name(): String = s"$catalog.${definition.table}"

  override def schema(): StructType = definition.schema

  override def partitioning(): Array[Transform] = definition.transforms

  override def properties(): util.Map[String, String] = definition.properties.asJava

  override def capabilities(): util.Set[TableCapability] = HudiCatalogTable.writable
}

/** A new table. It is made when the rows arrive: only then the options of `df.write` are known.
  *
  * If anything fails, Python removes it again, unless another writer already uses it.
  *
  * @param unregister removes its entry from the catalog again, if no table stays
  */
private[pyhudi] class HudiCreatedTable(
    catalog: String,
    definition: HudiDefinition,
    target: HudiTarget,
    unregister: () => Unit)
    extends HudiStagedTable(catalog, definition) {

  private var made: Option[HudiDefinition.Made] = None

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder =
    new WriteBuilder with SupportsTruncate {
      override def truncate(): WriteBuilder = this
      override def build(): Write = new V1Write {
        override def toInsertableRelation: InsertableRelation =
          (data: DataFrame, overwrite: Boolean) => {
            create(HudiDataSource.withoutPath(info.options().asCaseSensitiveMap().asScala.toMap))
            new HudiInsert(target, info, Overwrite.New).toInsertableRelation
              .insert(data, overwrite)
          }
      }
    }

  override def commitStagedChanges(): Unit = create(Map.empty)

  override def abortStagedChanges(): Unit = if (made.forall(_.discarded(target))) unregister()

  private def create(options: Map[String, String]): Unit =
    if (made.isEmpty) made = Some(definition.create(target.path, options, adopt = false))
}

/** An existing table whose rows and columns one commit replaces; until then nothing changes.
  *
  * @param replaced tells the catalog that the table has the columns of the definition
  */
private[pyhudi] class HudiReplacedTable(
    catalog: String,
    definition: HudiDefinition,
    existing: HudiCatalogTable,
    replaced: () => Unit)
    extends HudiStagedTable(catalog, definition) {

  private var written = false

  requireSamePlace()

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    written = true
    new HudiWriteBuilder(target, info, whole = Overwrite.Replace)
  }

  override def commitStagedChanges(): Unit = {
    if (!written) empty()
    replaced()
  }

  private def target =
    existing.target.copy(properties = existing.target.properties ++ definition.userProperties)

  /** REPLACE TABLE without AS SELECT. */
  private def empty(): Unit = {
    val before = existing.snapshot.shown.map(field => field.name.toLowerCase -> field).toMap
    definition.shown.foreach { field =>
      val kept = before.get(field.name.toLowerCase)
        .filter(old => CatalogEntries.areOneType(old.dataType, field.dataType))
      if (!CatalogEntries.haveSameNulls(kept, field)) {
        val column = s"column ${field.name}, or parts of it"
        refuse(s"does not say NOT NULL of $column, as the new definition does")
      }
    }
    val none = Compat.activeSession.createDataFrame(util.List.of[Row](), definition.annotated)
    val all = Seq("overwrite" -> Overwrite.Replace.name, "filters" -> Nil)
    HudiOwnReads.write("insert", none, target.place, all)
  }

  override def abortStagedChanges(): Unit = ()

  private def requireSamePlace(): Unit = {
    val partitioning = existing.snapshot.partitioning
    if (definition.partitioning.nonEmpty && definition.partitioning != partitioning) {
      refuse(s"is partitioned by ${partitioning.mkString("(", ", ", ")")}, the new definition by " +
        definition.partitioning.mkString("(", ", ", ")"))
    }
    if (definition.location.exists(new Path(_) != new Path(existing.target.path))) {
      refuse(s"lies at ${existing.target.path}, the new definition at ${definition.location.get}")
    }
  }

  private def refuse(why: String): Nothing =
    throw new HudiAnalysisException(
      s"[TABLE_EXISTS] ${definition.table} cannot be replaced in place, since it $why: drop it " +
        "first.",
      "TableExists")
}
