package io.pyhudi

import scala.collection.JavaConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The point in time at which a table is read: the newest state, or one that the user named. */
private[pyhudi] sealed trait AsOf
private[pyhudi] object AsOf {
  case object Latest extends AsOf
  final case class Version(text: String) extends AsOf
  final case class Micros(sinceEpoch: Long) extends AsOf
}

/** Python's description of a table at one instant. All parts of a query read this instant.
  *
  * @param options the reader's options, in the user's spelling
  * @param schema the table's columns without Hudi's meta columns
  * @param partitioning the columns whose values name the partitions
  * @param partitionColumns all columns that form partition paths, with any key generator
  * @param pin Python's name for the state; every later question carries it
  * @param instant the newest visible instant; `None` for a table without commits
  * @param metaFields whether the files hold the five `_hoodie_*` columns
  * @param runtimeFilters the columns by which a join may leave files out
  * @param travels whether the reader named the point in time
  * @param rows those of an incremental read, none for all rows of the files
  * @param logged whether change logs tell these rows for less than the files
  * @param changes whether it is change data, which has no files of its own
  * @param follows whether only a stream can read it
  */
private[pyhudi] final case class HudiSnapshot(
    path: String,
    options: Map[String, String],
    asOf: AsOf,
    schema: StructType,
    partitioning: Seq[String],
    partitionColumns: Seq[String],
    properties: Map[String, String],
    pin: String,
    instant: Option[String],
    metaFields: Boolean,
    runtimeFilters: Seq[String],
    travels: Boolean,
    rows: Option[HudiRangeRows],
    logged: Boolean,
    changes: Boolean,
    follows: Boolean) {

  /** The columns in SQL's order. `spark.read.load` gives rows in the order of `schema`. */
  def shown: StructType = HudiColumns.partitionsLast(schema, partitionColumns)

  def place: HudiPlace = HudiPlace(path, options)

  /** The fields of each question about this snapshot, besides the place. */
  def question: Seq[(String, Any)] = Seq("pin" -> pin, "instant" -> instant)

  /** This snapshot as a scan of a statement, for Python. */
  def scanned: Map[String, Any] = Map("path" -> path, "options" -> options) ++ question

  /** The filters among `pushed`, over partition columns alone, that are true for every row of the
    * files that all of `pushed` leave.
    */
  def decided(pushed: Seq[Filter]): Seq[Filter] = {
    val columns = partitioning.toSet
    val candidates = pushed.map(f => f.references.nonEmpty && f.references.forall(columns))
    if (candidates.contains(true)) {
      val answer =
        Bridge.ask("decide", place, question :+ ("filters" -> HudiFilters.told(pushed)): _*)
      val flags = answer.elements().asScala.map(_.asBoolean).toList
      pushed.zip(candidates.zip(flags)).collect { case (filter, (true, true)) => filter }
    } else Nil
  }

  /** The snapshot for the options of one read, as in `spark.read.option(...).table(t)`.
    *
    * The table was described before they were known; it is described again only if they add
    * something.
    */
  def under(readOptions: CaseInsensitiveStringMap): HudiSnapshot = {
    val asked =
      options ++ HudiDataSource.withoutPath(readOptions.asCaseSensitiveMap().asScala.toMap)
    if (asked == options) this else HudiSnapshot.describe(path, asked, asOf)
  }
}

private[pyhudi] object HudiSnapshot {

  def describe(path: String, options: Map[String, String], asOf: AsOf): HudiSnapshot = {
    val (version, micros) = asOf match {
      case AsOf.Latest => (None, None)
      case AsOf.Version(text) => (Some(text), None)
      case AsOf.Micros(sinceEpoch) => (None, Some(sinceEpoch))
    }
    val answer = Bridge.ask(
      "describe",
      HudiPlace(path, options),
      "as_of" -> version,
      "as_of_micros" -> micros)
    HudiSnapshot(
      path,
      options,
      asOf,
      Json.toStruct(answer.get("schema")),
      texts(answer.get("partitioning")),
      texts(answer.get("partition_columns")),
      textMap(answer.get("properties")),
      answer.get("pin").asText,
      Json.some(answer.get("instant")).map(_.asText),
      answer.get("meta_fields").asBoolean,
      texts(answer.get("runtime_filters")),
      answer.get("travels").asBoolean,
      Json.some(answer.get("rows")).map(HudiRangeRows.parse),
      answer.get("logged").asBoolean,
      answer.get("changes").asBoolean,
      answer.get("follows").asBoolean
    )
  }

  def texts(array: JsonNode): Seq[String] = array.elements().asScala.map(_.asText).toList

  def textMap(node: JsonNode): Map[String, String] =
    node.properties().asScala.map(entry => entry.getKey -> entry.getValue.asText).toMap
}
