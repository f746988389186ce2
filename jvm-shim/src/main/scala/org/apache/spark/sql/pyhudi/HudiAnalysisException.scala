package org.apache.spark.sql.pyhudi

import org.apache.spark.sql.AnalysisException

/** An error of pyhudi's Python side, with exactly its message.
  *
  * It lives in Spark's package because `AnalysisException` can only be extended there.
  *
  * @param errorClassName name of the Python class, such as `CommitConflict`
  */
class HudiAnalysisException(
    text: String,
    val errorClassName: String,
    reason: Option[Throwable] = None)
    extends AnalysisException(message = text, cause = reason)
