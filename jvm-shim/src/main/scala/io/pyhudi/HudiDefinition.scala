package io.pyhudi

import java.util

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.catalog.{Column, Identifier, TableCatalog}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.pyhudi.{CatalogEntries, HudiAnalysisException}
import org.apache.spark.sql.types.StructType

/** The definition of a table in a CREATE or REPLACE statement.
  *
  * @param schema the columns as declared, or as selected: rows come in this order
  * @param properties all of Spark's table properties, the reserved ones included
  */
private[pyhudi] final case class HudiDefinition(
    table: String,
    schema: StructType,
    partitioning: Seq[String],
    properties: Map[String, String]) {

  def location: Option[String] = properties.get(TableCatalog.PROP_LOCATION)

  /** The columns as the table shows them. */
  def shown: StructType = HudiColumns.partitionsLast(schema, partitioning)

  def columns: Array[Column] = CatalogEntries.columns(shown)

  def transforms: Array[Transform] = HudiColumns.byValue(partitioning)

  /** The columns in the form of Spark's catalog: lengths of CHAR and VARCHAR beside the type. */
  def annotated: StructType = HudiDefinition.stored(shown)

  /** TBLPROPERTIES and OPTIONS for Hudi, without those for Spark. */
  def userProperties: Map[String, String] = HudiDefinition.userProperties(properties)

  /** Makes the table at `path`, or adopts an existing one.
    *
    * @param options the options of a `df.write`; those of the definition are there as well
    * @param adopt false if an existing table is an error
    */
  def create(
      path: String,
      options: Map[String, String],
      adopt: Boolean = true): HudiDefinition.Made = {
    val answer = Bridge.ask(
      "create_table",
      HudiPlace(path, HudiDefinition.options(properties) ++ options, userProperties),
      "table" -> table,
      "schema" -> Json.of(HudiDefinition.stored(shown)),
      "partitioning" -> partitioning,
      "adopt" -> adopt
    )
    HudiDefinition.Made(
      Json.toStruct(answer.get("schema")),
      HudiSnapshot.texts(answer.get("partitioning")),
      Json.some(answer.get("made")).map(_.asText))
  }

  /** This definition with the columns and partitioning of the table that was made or adopted. */
  def as(made: HudiDefinition.Made): HudiDefinition = {
    val plain = HudiDefinition.stored(schema).fields.map(_.dataType)
    val said = schema.fields.zip(plain).map { case (f, held) => f.name -> (f -> held) }.toMap
    copy(
      schema =
        StructType(
          made.schema.fields.map { field =>
            said.get(field.name).collect {
              case (f, held) if CatalogEntries.areOneType(held, field.dataType) => f
            }.getOrElse(field)
          }),
      partitioning = made.partitioning
    )
  }
}

private[pyhudi] object HudiDefinition {

  /** The columns as files hold them: only the catalog has lengths of CHAR and VARCHAR. */
  private def stored(schema: StructType): StructType =
    CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema)

  /** @param id Python's id of a new table; `None` for an existing one */
  final case class Made(schema: StructType, partitioning: Seq[String], id: Option[String]) {

    /** Lets Python remove the table, if it was made here; returns whether it is gone. */
    def discarded(target: HudiTarget): Boolean = id.exists { made =>
      Bridge.ask("discard_table", target.place, "made" -> made).asBoolean
    }
  }

  def apply(
      ident: Identifier,
      columns: Array[Column],
      transforms: Array[Transform],
      properties: util.Map[String, String]): HudiDefinition = {
    val said = HudiDefinition(
      (ident.namespace :+ ident.name).mkString("."),
      CatalogEntries.schema(columns),
      transforms.toSeq.map(partitionColumn),
      properties.asScala.toMap)
    said.properties.get("collation").foreach(CatalogEntries.requirePlain(said.table, _))
    if (columns.isEmpty && said.location.isEmpty) {
      throw new HudiAnalysisException(
        s"[CONFIG_ERROR] ${said.table} has no columns: name them, as in CREATE TABLE " +
          "trips (id BIGINT) USING pyhudi, or add AS SELECT, or LOCATION '/data/trips' of an " +
          "existing table.",
        "ConfigError"
      )
    }
    said
  }

  /** Properties without Spark's reserved keys and its duplicate `option.` keys. */
  def userProperties(properties: Map[String, String]): Map[String, String] =
    properties.filter { case (key, _) =>
      !CatalogEntries.isReserved(key) && !key.startsWith(TableCatalog.OPTION_PREFIX)
    }

  /** The OPTIONS of a statement, which Spark keeps among the properties as `option.<name>`. */
  private def options(properties: Map[String, String]): Map[String, String] =
    properties.collect {
      case (key, value) if key.startsWith(TableCatalog.OPTION_PREFIX) =>
        key.stripPrefix(TableCatalog.OPTION_PREFIX) -> value
    }

  private def partitionColumn(transform: Transform): String =
    transform.references().map(_.fieldNames.toSeq).toSeq match {
      case Seq(Seq(column)) if transform.name == "identity" => column
      case _ =>
        throw new HudiAnalysisException(
          s"[CONFIG_ERROR] a Hudi table is partitioned by columns, not by ${transform.describe}: " +
            "name the column; for parts of a time choose the key generator TIMESTAMP.",
          "ConfigError"
        )
    }
}
