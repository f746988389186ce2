package io.pyhudi

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.spark.sql.types.{DataType, StructType}

/** The JSON of the bridge: Scala maps, sequences, options and numbers go out, trees come in. */
private[pyhudi] object Json {

  private val mapper = new ObjectMapper().registerModule(DefaultScalaModule)

  def render(value: Any): String = mapper.writeValueAsString(value)

  def parse(text: String): JsonNode = mapper.readTree(text)

  /** The value, unless it is JSON's null. */
  def some(node: JsonNode): Option[JsonNode] = Option(node).filterNot(_.isNull)

  /** JSON text as a value inside a request. */
  def of(schema: StructType): JsonNode = parse(schema.json)

  def toStruct(node: JsonNode): StructType =
    DataType.fromJson(mapper.writeValueAsString(node)).asInstanceOf[StructType]
}
