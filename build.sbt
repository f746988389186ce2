// The Spark shim: one source tree, one jar per Spark line. `sbt jars` builds all.
// Sources that differ between the lines live beside it, as docs/spark_lines.md lists them.

ThisBuild / organization := "io.pyhudi"
ThisBuild / version := "0.1.0"

val jars = taskKey[File]("Builds the jar and puts it where the Python package looks for it")

/** The jar of one Spark line, named as `pyhudi/jars` in the wheel names it.
  *
  * @param spark the version to compile against, from Maven Central
  * @param folders the line's own sources
  */
def shim(spark: String, scala: String, folders: String*): Project =
  line(spark, scala, folders).settings(
    libraryDependencies += "org.apache.spark" %% "spark-sql" % spark % Provided)

/** The same for a version that PyPI has before Maven Central: its jars are those of PySpark in the
  * environment `environment`.
  */
def shimOfPySpark(spark: String, scala: String, environment: String, folders: String*): Project =
  line(spark, scala, folders).settings(
    Compile / unmanagedJars := {
      val packages = (ThisBuild / baseDirectory).value / environment / "lib"
      (packages * "python3*" / "site-packages" / "pyspark" / "jars" * "*.jar").classpath
    })

/** What a newer line deprecates, but an older one has nothing else for. */
val silent = Seq("scala.collection.*", "org.apache.spark.sql.connector.catalog.*").map(origin =>
  s"cat=deprecation&origin=$origin:s")

def line(spark: String, scala: String, folders: Seq[String]): Project = {
  val sparkLine = spark.split('.').take(2).mkString(".")
  val scalaLine = scala.split('.').take(2).mkString(".")
  Project(s"spark${sparkLine.filter(_.isDigit)}", file(s"target/spark-$sparkLine")).settings(
    scalaVersion := scala,
    Compile / unmanagedSourceDirectories := {
      val main = (ThisBuild / baseDirectory).value / "jvm-shim" / "src" / "main"
      (Seq("java", "scala") ++ folders).map(main / _)
    },
    Compile / unmanagedResourceDirectories :=
      Seq((ThisBuild / baseDirectory).value / "jvm-shim" / "src" / "main" / "resources"),
    javacOptions ++= Seq("--release", "17"),
    scalacOptions ++= Seq("-release:17", "-deprecation", "-feature", "-Xfatal-warnings") ++
      (if (scalaLine == "2.13") Seq(s"-Wconf:${silent.mkString(",")}") else Nil),
    Compile / doc / sources := Nil,
    jars := {
      val built = (Compile / packageBin).value
      val folder = (ThisBuild / baseDirectory).value / "python" / "pyhudi" / "jars"
      val target = folder / s"pyhudi-spark-${sparkLine}_$scalaLine.jar"
      val fresh = folder / s".${target.getName}.new"
      IO.copyFile(built, fresh)
      // Renamed, never overwritten: a JVM that has the old jar open keeps its own file.
      java.nio.file.Files.move(
        fresh.toPath,
        target.toPath,
        java.nio.file.StandardCopyOption.ATOMIC_MOVE,
        java.nio.file.StandardCopyOption.REPLACE_EXISTING)
      streams.value.log.info(s"wrote $target")
      target
    }
  )
}

lazy val spark35 = shim("3.5.9", "2.12.18", "scala-spark3", "scala-until41")
lazy val spark40 = shim("4.0.4", "2.13.16", "scala-spark4", "scala-until41")
lazy val spark41 = shim("4.1.3", "2.13.17", "scala-spark4", "scala-until41")
lazy val spark42 = shim("4.2.0", "2.13.18", "scala-spark4", "scala-spark42")
lazy val spark43 =
  shimOfPySpark("4.3.0", "2.13.18", ".venv-spark43", "scala-spark4", "scala-spark42")
lazy val root = project
  .in(file("."))
  .aggregate(spark35, spark40, spark41, spark42, spark43)
  .settings(publish / skip := true)
