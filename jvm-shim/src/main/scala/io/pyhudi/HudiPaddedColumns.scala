package io.pyhudi

import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Attribute,
  Expression,
  ExprId,
  OuterReference,
  SubqueryExpression
}
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, Command, LogicalPlan, Project}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Statements whose table has columns of type CHAR, which Spark pads when it reads them.
  *
  * Spark 3.5 pads by a projection over the table, also where a statement changes this table, and
  * then does not find it. The statement gets the table itself, and its expressions the padding.
  */
private[pyhudi] object HudiPaddedColumns {

  /** `statement` without a projection over its table `target`; the same if there is none. */
  def moved(statement: Command, target: LogicalPlan): LogicalPlan =
    target.collectFirst {
      case found @ Project(columns, _: DataSourceV2Relation)
          if columns.exists(_.isInstanceOf[Alias]) => found
    }.fold[LogicalPlan](statement) { padding =>
      val bare = target.transformUp { case found if found eq padding => padding.child }
      val values = padding.projectList.collect { case made: Alias => made.exprId -> made.child }
      statement
        .mapChildren(child => if (child eq target) bare else child)
        .mapExpressions(padded(_, values.toMap))
    }

  private def padded(expression: Expression, values: Map[ExprId, Expression]): Expression =
    expression.transformDown {
      // What is assigned to is the table's own column.
      case Assignment(key: Attribute, value) if values.contains(key.exprId) =>
        Assignment(own(values(key.exprId)), value)
      case subquery: SubqueryExpression => correlated(subquery, values)
      case column: Attribute if values.contains(column.exprId) => values(column.exprId)
    }

  /** A subquery that refers to columns of the statement's table. */
  private def correlated(
      subquery: SubqueryExpression,
      values: Map[ExprId, Expression]): Expression = {
    val plan = subquery.plan.transformAllExpressionsWithSubqueries {
      case OuterReference(column) if values.contains(column.exprId) =>
        values(column.exprId).transform { case raw: Attribute => OuterReference(raw) }
    }
    // Its children are the columns that it refers to.
    subquery.withNewPlan(plan).mapChildren {
      case column: Attribute if values.contains(column.exprId) => own(values(column.exprId))
      case other => other
    }
  }

  private def own(value: Expression): Attribute = value.references.head
}
