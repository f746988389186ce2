package io.pyhudi

import java.util.Locale

import scala.collection.JavaConverters._

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.connector.catalog.TableChange
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.types.{DataType, StructType}

/** ALTER TABLE's changes of columns in the bridge's form; Python decides which are possible. */
private[pyhudi] object HudiColumnChanges {

  /** `None` for changes of the catalog alone: comments, and everything but columns. */
  def told(change: TableChange): Option[Protocol.ColumnChange] = change match {
    case _: UpdateColumnComment => None
    case column: ColumnChange => Some(told(column, column.fieldNames().toList))
    case _ => None
  }

  private def told(change: ColumnChange, path: Seq[String]): Protocol.ColumnChange = change match {
    case add: AddColumn if add.defaultValue() == null =>
      val position = Option(add.position()).map(placed)
      Protocol.AddColumn(path, json(add.dataType()), add.isNullable, position)
    case update: UpdateColumnType => Protocol.RetypeColumn(path, json(update.newDataType()))
    case update: UpdateColumnNullability if update.nullable() => Protocol.LoosenColumn(path)
    case _: UpdateColumnNullability => Protocol.RefusedChange(path, Protocol.Unserved.NotNull)
    case update: UpdateColumnPosition => Protocol.MoveColumn(path, placed(update.position()))
    case rename: RenameColumn => Protocol.RenameColumn(path, rename.newName())
    case _: DeleteColumn => Protocol.DropColumn(path)
    case _ => Protocol.RefusedChange(path, Protocol.Unserved.Default)
  }

  /** The changes for Spark's own catalog. It needs partition columns last, as Spark 4.1 checks: a
    * column that would come after them comes after the last data column instead.
    */
  def beforePartitions(stored: CatalogTable, changes: Seq[TableChange]): Seq[TableChange] = {
    def isLast(name: String) = stored.partitionColumnNames.exists(_.equalsIgnoreCase(name))
    def isBehind(change: ColumnChange, position: ColumnPosition) =
      change.fieldNames.length == 1 && (position match {
        case null => stored.partitionColumnNames.nonEmpty
        case after: After => isLast(after.column)
        case _ => false
      })
    var data = stored.schema.fieldNames.toSeq.filterNot(isLast)
    def behindData(change: ColumnChange): ColumnPosition = {
      val name = change.fieldNames.head
      val others = data.filterNot(_.equalsIgnoreCase(name))
      data = others :+ name
      others.lastOption.fold(ColumnPosition.first())(ColumnPosition.after)
    }
    changes.map {
      case add: AddColumn if isBehind(add, add.position) =>
        TableChange.addColumn(
          add.fieldNames,
          add.dataType,
          add.isNullable,
          add.comment,
          behindData(add),
          add.defaultValue)
      case move: UpdateColumnPosition if isBehind(move, move.position) =>
        TableChange.updateColumnPosition(move.fieldNames, behindData(move))
      case other => other
    }
  }

  private def placed(position: ColumnPosition): Protocol.Position = position match {
    case after: After => Protocol.After(after.column())
    case _ => Protocol.First()
  }

  /** The type in the form of a schema's JSON, which keeps collations beside it; one with such a
    * part is told by its name, which Python refuses.
    */
  private def json(dataType: DataType): Any = {
    val field = Json.of(new StructType().add("c", dataType)).get("fields").get(0)
    val collations = Option(field.get("metadata").get("__COLLATIONS"))
    val isPlain =
      collations.forall(_.elements.asScala.forall(_.asText.endsWith(".UTF8_BINARY")))
    if (isPlain) field.get("type") else dataType.sql.toLowerCase(Locale.ROOT)
  }
}
