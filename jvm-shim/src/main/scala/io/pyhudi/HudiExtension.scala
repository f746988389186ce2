package io.pyhudi

import org.apache.spark.sql.SparkSessionExtensions

/** For `spark.sql.extensions`: statements of Hudi's SQL that Spark's own rules do not take.
  *
  * `pyhudi.configure` sets it. Without it the other statements work as before.
  */
class HudiExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectParser(HudiForeignStatements.over(_, _))
    Compat.injectCall(extensions)
    extensions.injectParser((_, spark) => HudiParser.over(spark))
    Compat.injectFirst(extensions, HudiChecks)
    extensions.injectResolutionRule(_ => HudiStatements)
    extensions.injectPostHocResolutionRule(_ => HudiRowCounts.Announced)
    extensions.injectPlanNormalizationRule(_ => HudiRowCounts.Restored)
    extensions.injectPlanNormalizationRule(_ => HudiStaticReads)
    extensions.injectTableFunction(HudiTableChanges.description)
    extensions.injectPlannerStrategy(_ => HudiEvaluation)
  }
}
