package io.pyhudi

/** The table of a question: the part that all questions have.
  *
  * @param path Hadoop's text form of its root, not percent-encoded
  * @param options the statement's options
  * @param properties TBLPROPERTIES of the catalog, without Spark's reserved ones
  * @param entry its entry in a shared metastore, which Python updates after commits
  * @param batch the micro-batch that is written; by default that of the thread
  */
private[pyhudi] final case class HudiPlace(
    path: String,
    options: Map[String, String] = Map.empty,
    properties: Map[String, String] = Map.empty,
    entry: Option[Map[String, Any]] = None,
    batch: Option[HudiEpoch] = None) {

  /** The session's own `hoodie.*` settings are sent with each request. */
  def toJson: Map[String, Any] = Map(
    "path" -> path,
    "options" -> options,
    "properties" -> properties,
    "session" -> Compat.hoodieSettings,
    "entry" -> entry,
    "batch" -> batch.orElse(HudiEpoch.here).map(_.toMap)
  )
}
