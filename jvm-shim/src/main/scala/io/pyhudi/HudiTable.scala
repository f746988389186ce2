package io.pyhudi

import java.util

import scala.collection.JavaConverters._

import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A Hudi table that can be read, pinned to one instant.
  *
  * Two are equal if name, path and state are equal: so Spark finds cached data of the same state,
  * and never of another.
  */
private[pyhudi] class HudiTable(
    val snapshot: HudiSnapshot,
    override val name: String,
    override val schema: StructType,
    tableProperties: Map[String, String])
    extends Table
    with SupportsRead
    with SupportsMetadataColumns {

  override def partitioning(): Array[Transform] = HudiColumns.byValue(snapshot.partitioning)

  override def properties(): util.Map[String, String] = tableProperties.asJava

  override def capabilities(): util.Set[TableCapability] = HudiTable.readable

  // Set when Spark looks for hidden columns: then a stream's rows end with them.
  @volatile private var lookedUp = false

  override def metadataColumns(): Array[MetadataColumn] = {
    lookedUp = true
    if (snapshot.changes) Array.empty else HudiColumns.hidden(snapshot.metaFields)
  }

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = {
    val asked = snapshot.under(options)
    if (asked.follows) new HudiStreamBuilder(asked, streamed)
    else if (asked.changes) new HudiChangesBuilder(asked, schema)
    else new HudiScanBuilder(asked, schema, streamed = Some(streamed))
  }

  /** The columns of a stream, which Spark does not narrow: hidden ones come if a query may name
    * them.
    */
  private def streamed: StructType = {
    val hidden = if (lookedUp) metadataColumns().toSeq else Nil
    val named = schema.fieldNames.toSet
    StructType(
      schema.fields ++
        hidden.filterNot(c => named(c.name)).map(c => StructField(c.name, c.dataType)))
  }

  /** The table as a read with `options` sees it: change data has other columns. */
  def under(options: CaseInsensitiveStringMap): HudiTable = {
    val asked = snapshot.under(options)
    new HudiTable(asked, name, if (asked.changes) asked.schema else schema, tableProperties)
  }

  /** The table as it is now; none if it has other columns now. */
  def now: Option[HudiTable] = newest.map(new HudiTable(_, name, schema, tableProperties))

  protected def newest: Option[HudiSnapshot] =
    Some(HudiSnapshot.describe(snapshot.path, snapshot.options, AsOf.Latest))
      .filter(_.schema == snapshot.schema)

  private def identity = (name, snapshot.path, snapshot.pin, snapshot.options)

  override def equals(other: Any): Boolean = other match {
    case that: HudiTable => getClass == that.getClass && identity == that.identity
    case _ => false
  }

  override def hashCode(): Int = identity.hashCode
}

private[pyhudi] object HudiTable {

  val readable: util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ)

  /** The table at a path, with the columns that the user asked for.
    *
    * @throws HudiAnalysisException if a column of a user's schema is not one of the table's
    */
  def byPath(snapshot: HudiSnapshot, schema: StructType): HudiTable = {
    schema.fields.foreach { field =>
      val known = snapshot.schema.fields.find(_.name == field.name)
      if (!known.exists(_.dataType == field.dataType)) {
        throw new HudiAnalysisException(
          s"[SCHEMA_CONFLICT] the given schema has ${field.name} ${field.dataType.sql}, and the " +
            s"table at ${snapshot.path} " +
            known.fold("has no such column")(f => s"has it as ${f.dataType.sql}") +
            ": read without a schema, and cast afterwards.",
          "SchemaConflict"
        )
      }
    }
    new HudiTable(snapshot, s"pyhudi.`${snapshot.path}`", schema, snapshot.properties)
  }
}

/** A table of which only the schema is known: Spark asks for it before a write by path.
  *
  * A write never describes it. With `spark.read.schema(...)` the first read describes it, and it
  * keeps that state.
  */
private[pyhudi] class HudiUnreadTable(
    override val schema: StructType,
    override val partitioning: Array[Transform],
    describe: () => HudiSnapshot)
    extends Table
    with SupportsRead {

  /** The table, in its state at the first use. */
  lazy val described: HudiTable = HudiTable.byPath(describe(), schema)

  override def name(): String = HudiDataSource.provider

  override def capabilities(): util.Set[TableCapability] = HudiTable.readable

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    described.newScanBuilder(options)
}
