package io.pyhudi

import java.lang.reflect.{InvocationTargetException, Proxy}

import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnresolvedWith}
import org.apache.spark.sql.types.StringType

/** Spark's parser, with one change to the plans that it makes: `TIMESTAMP AS OF` a text of an
  * instant's digits, which is no time in Spark's form, asks for the version of this name.
  *
  * A proxy, since the methods of a parser differ between the Spark lines.
  */
private[pyhudi] object HudiParser {

  def over(spark: ParserInterface): ParserInterface = over(spark, changed(_))

  /** A parser whose plans pass through `change`. */
  def over(spark: ParserInterface, change: LogicalPlan => LogicalPlan): ParserInterface =
    Proxy.newProxyInstance(
      getClass.getClassLoader,
      Array(classOf[ParserInterface]),
      (_, method, arguments) => {
        val found =
          try method.invoke(spark, Option(arguments).getOrElse(Array.empty[AnyRef]): _*)
          catch { case failure: InvocationTargetException => throw failure.getCause }
        found match {
          case plan: LogicalPlan => change(plan)
          case other => other
        }
      }
    ).asInstanceOf[ParserInterface]

  private def changed(plan: LogicalPlan): LogicalPlan = plan.transformDownWithSubqueries {
    case travel @ RelationTimeTravel(_, Some(Instant(name)), None) =>
      travel.copy(timestamp = None, version = Some(name))
    // The queries of WITH are not among its children.
    case named: UnresolvedWith =>
      named.copy(cteRelations = named.cteRelations.map { relation =>
        relation.copy(_2 = relation._2.copy(child = changed(relation._2.child)))
      })
  }

  /** A text of the 14 or 17 digits of an instant, which is no time in Spark's form. */
  private object Instant {
    def unapply(time: Expression): Option[String] = time match {
      case Literal(text, StringType) if text != null =>
        Some(text.toString).filter(_.matches("\\d{14}(\\d{3})?"))
      case _ => None
    }
  }
}
