package io.pyhudi

import java.lang.reflect.{InvocationTargetException, Proxy}

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OneRowRelation, Project}
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.pyhudi.HudiAnalysisException
import org.apache.spark.sql.types.StructType

/** Procedures of a catalog; Spark 3.5 has none, so `HudiCall` reads the statement. */
private[pyhudi] trait HudiProcedures

/** CALL for Spark 3.5, whose parser does not know the statement: it is read as the call of a
  * function, by Spark's parser of expressions.
  */
private[pyhudi] object HudiCall {

  private val Statement = "(?is)\\s*CALL\\s+(.*?)[\\s;]*".r

  def over(session: SparkSession, spark: ParserInterface): ParserInterface =
    Proxy.newProxyInstance(
      getClass.getClassLoader,
      Array(classOf[ParserInterface]),
      (_, method, arguments) => {
        val all = Option(arguments).getOrElse(Array.empty[AnyRef])
        try method.invoke(spark, all: _*)
        catch {
          case failure: InvocationTargetException => failure.getCause match {
              case cause: ParseException if method.getName.startsWith("parsePlan") =>
                called(session, spark, all.head.toString).getOrElse(throw cause)
              case cause => throw cause
            }
        }
      }
    ).asInstanceOf[ParserInterface]

  /** The statement's plan; none if it calls nothing in a catalog of pyhudi. */
  private def called(
      session: SparkSession,
      spark: ParserInterface,
      text: String): Option[LogicalPlan] = text match {
    case Statement(call) =>
      val parsed =
        try Some(spark.parseExpression(call))
        catch { case _: ParseException => None }
      parsed.collect {
        case UnresolvedFunction(catalog +: name, arguments, false, None, false)
            if name.nonEmpty && isOurs(session, catalog) =>
          try {
            val procedure = HudiCalls.named(Identifier.of(name.init.toArray, name.last))
            HudiCall(new HudiCalled(session, procedure, bound(spark, procedure, arguments)))
          } catch { case cause: HudiAnalysisException => HudiRefused(cause) }
      }
    case _ => None
  }

  private def isOurs(session: SparkSession, catalog: String): Boolean = {
    val catalogs = session.sessionState.catalogManager
    catalogs.isCatalogRegistered(catalog) &&
    catalogs.catalog(catalog).isInstanceOf[HudiPathCatalog]
  }

  /** An expression for each parameter. */
  private def bound(
      spark: ParserInterface,
      procedure: HudiProcedure,
      arguments: Seq[Expression]): Seq[Expression] = {
    val (named, placed) = arguments.partition(_.isInstanceOf[NamedArgumentExpression])
    val byName = named.collect { case NamedArgumentExpression(key, value) => key -> value }
    val names = procedure.all.map(_.name)
    val known = names.take(placed.size)
    byName.map(_._1).foreach { key =>
      val knows = (name: String) => name.equalsIgnoreCase(key)
      if (!names.exists(knows)) throw wrong(procedure, s"has no parameter $key")
      if (known.exists(knows) || byName.count(each => knows(each._1)) > 1)
        throw wrong(procedure, s"got $key more than once")
    }
    if (placed.size > names.size) throw wrong(procedure, s"got ${placed.size} arguments")
    procedure.all.zipWithIndex.map { case (parameter, at) =>
      val given = placed.lift(at)
        .orElse(byName.find(_._1.equalsIgnoreCase(parameter.name)).map(_._2))
        .orElse(parameter.default.map(spark.parseExpression))
        .getOrElse(throw wrong(procedure, s"needs ${parameter.name}"))
      // Strict: a text that is no boolean must not become NULL, which would be taken for false.
      Alias(Cast(given, parameter.dataType, None, EvalMode.ANSI), parameter.name)()
    }
  }

  private def wrong(procedure: HudiProcedure, what: String) = new HudiAnalysisException(
    s"[CONFIG_ERROR] the procedure ${procedure.name} $what. Its parameters are " +
      s"${procedure.all.map(_.name).mkString(", ")}.",
    "ConfigError"
  )
}

/** A call and its answer, which Python is asked for once. */
private[pyhudi] class HudiCalled(
    session: SparkSession,
    procedure: HudiProcedure,
    arguments: Seq[Expression]) {

  private lazy val told: HudiToldRows = {
    val values = Project(arguments.collect { case each: NamedExpression => each }, OneRowRelation())
    val input = session.sessionState.executePlan(values).executedPlan.executeCollect()
    procedure.rows(input.head)
  }

  def schema: StructType = told.readSchema

  lazy val attributes: Seq[Attribute] =
    schema.map(each => AttributeReference(each.name, each.dataType, each.nullable)())

  def rows: Seq[Row] = {
    val converted = CatalystTypeConverters.createToScalaConverter(schema)
    told.rows.toSeq.map((row: InternalRow) => converted(row).asInstanceOf[Row])
  }
}

/** The statement. Its columns come with the answer, so it runs when it is analysed, as commands do.
  */
private[pyhudi] case class HudiCall(called: HudiCalled) extends LeafRunnableCommand {

  override lazy val output: Seq[Attribute] = called.attributes

  override def run(session: SparkSession): Seq[Row] = called.rows
}
