package io.pyhudi

import java.util

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{Identifier, ProcedureCatalog}
import org.apache.spark.sql.connector.catalog.procedures._
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.types.StructType

/** The procedures for Spark's own CALL. */
private[pyhudi] trait HudiProcedures extends ProcedureCatalog {

  /** For SHOW PROCEDURES, which came with Spark 4.1: on 4.0 nobody asks. */
  def listProcedures(namespace: Array[String]): Array[Identifier] =
    if (namespace.isEmpty || namespace.sameElements(HudiCalls.Namespace))
      HudiCalls.all.map(each => Identifier.of(HudiCalls.Namespace, each.name)).toArray
    else Array.empty

  override def loadProcedure(ident: Identifier): UnboundProcedure =
    new SparkProcedure(HudiCalls.named(ident))
}

/** A procedure of pyhudi as Spark asks for it. */
private[pyhudi] class SparkProcedure(procedure: HudiProcedure)
    extends UnboundProcedure
    with BoundProcedure {

  override def name: String = procedure.name

  override def description: String = procedure.description

  override def bind(inputType: StructType): BoundProcedure = this

  override def parameters(): Array[ProcedureParameter] = procedure.all.map { each =>
    val parameter = ProcedureParameter.in(each.name, each.dataType).comment(each.comment)
    each.default.fold(parameter)(parameter.defaultValue).build()
  }.toArray

  override def isDeterministic: Boolean = false

  override def call(input: InternalRow): util.Iterator[Scan] =
    util.List.of[Scan](procedure.rows(input)).iterator()
}
