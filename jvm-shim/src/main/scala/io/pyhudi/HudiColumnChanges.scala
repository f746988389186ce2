package io.pyhudi

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.connector.catalog.TableChange
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.types.{DataType, StructType}

/** ALTER TABLE's changes of columns as JSON objects; Python decides which are possible. */
private[pyhudi] object HudiColumnChanges {

  /** `None` for changes of the catalog alone: comments, and everything but columns. */
  def toJson(change: TableChange): Option[Map[String, Any]] = change match {
    case add: AddColumn if add.defaultValue() == null =>
      Some(
        named("add", add) ++ Option(add.position()).map(placed) ++
          Map("type" -> json(add.dataType()), "nullable" -> add.isNullable))
    case update: UpdateColumnType =>
      Some(named("type", update) + ("type" -> json(update.newDataType())))
    case update: UpdateColumnNullability if update.nullable() => Some(named("nullable", update))
    case update: UpdateColumnNullability => Some(named("not null", update))
    case update: UpdateColumnPosition =>
      Some(named("position", update) + placed(update.position()))
    case rename: RenameColumn => Some(named("rename", rename) + ("to" -> rename.newName()))
    case drop: DeleteColumn => Some(named("drop", drop))
    case _: UpdateColumnComment => None
    case other: ColumnChange => Some(named("default", other))
    case _ => None
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

  private def named(change: String, column: ColumnChange): Map[String, Any] =
    Map("change" -> change, "column" -> column.fieldNames().mkString("."))

  /** The column before it, empty for the first place. */
  private def placed(position: ColumnPosition): (String, String) = position match {
    case after: After => "position" -> after.column()
    case _ => "position" -> ""
  }

  /** The type in the form of a schema's JSON. */
  private def json(dataType: DataType): Any =
    Json.of(new StructType().add("c", dataType)).get("fields").get(0).get("type")
}
