package io.pyhudi

import java.util

import scala.collection.JavaConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/** A table's history, files, partitions, health or advice, as a table: rows from Python. */
private[pyhudi] class HudiListing(override val name: String, told: HudiToldRows)
    extends Table
    with SupportsRead {

  override def schema(): StructType = told.readSchema

  override def capabilities(): util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => told
}

/** The rows that Python gave, unchanged. */
private[pyhudi] class HudiToldRows(
    override val description: String,
    override val readSchema: StructType,
    override val rows: Array[InternalRow])
    extends LocalScan

private[pyhudi] object HudiListing {

  private val kinds = Set("advice", "history", "files", "partitions", "health")

  /** Whether an identifier may name a listing, as in trips.history. */
  def isNamedBy(ident: Identifier): Boolean =
    kinds(ident.name.toLowerCase(util.Locale.ROOT)) && ident.namespace.nonEmpty

  def of(target: HudiTarget, ident: Identifier): HudiListing = {
    val kind = ident.name.toLowerCase(util.Locale.ROOT)
    val name = s"${target.catalog}.${target.table}.$kind"
    val answer = Bridge.ask("inspect", target.place, "listing" -> kind)
    new HudiListing(name, told(name, answer))
  }

  /** The `columns` and `rows` of an answer. */
  def told(name: String, answer: JsonNode): HudiToldRows = {
    val schema = StructType.fromDDL(answer.get("columns").asText)
    val rows = answer.get("rows").elements().asScala.map { row =>
      InternalRow.fromSeq(row.elements().asScala.toSeq.zip(schema.fields).map {
        case (value, column) => plain(value, column.dataType)
      })
    }
    new HudiToldRows(name, schema, rows.toArray)
  }

  private def plain(value: JsonNode, dataType: DataType): Any = dataType match {
    case _ if value.isNull => null
    case LongType => value.asLong
    case BooleanType => value.asBoolean
    case DoubleType => value.asDouble
    case _ => UTF8String.fromString(value.asText)
  }
}
