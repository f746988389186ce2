// The Spark shim: one source tree, one jar per Spark line. `sbt jars` builds both.
// Sources that differ between the lines live in jvm-shim/src/main/scala-spark3 and scala-spark4.

ThisBuild / organization := "io.pyhudi"
ThisBuild / version := "0.1.0"

val jars = taskKey[File]("Builds the jar and puts it where the Python package looks for it")

/** The jar of one Spark line, named as `pyhudi/jars` in the wheel names it. */
def shim(spark: String, scala: String, lineFolder: String): Project = {
  val sparkLine = spark.split('.').take(2).mkString(".")
  val scalaLine = scala.split('.').take(2).mkString(".")
  Project(s"spark${sparkLine.filter(_.isDigit)}", file(s"target/spark-$sparkLine")).settings(
    scalaVersion := scala,
    Compile / unmanagedSourceDirectories := {
      val main = (ThisBuild / baseDirectory).value / "jvm-shim" / "src" / "main"
      Seq("java", "scala", lineFolder).map(main / _)
    },
    Compile / unmanagedResourceDirectories :=
      Seq((ThisBuild / baseDirectory).value / "jvm-shim" / "src" / "main" / "resources"),
    libraryDependencies += "org.apache.spark" %% "spark-sql" % spark % Provided,
    javacOptions ++= Seq("--release", "17"),
    scalacOptions ++= Seq("-release:17", "-deprecation", "-feature", "-Xfatal-warnings") ++
      (if (scalaLine == "2.13") Seq("-Wconf:cat=deprecation&origin=scala.collection.*:s") else Nil),
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

lazy val spark35 = shim("3.5.9", "2.12.18", "scala-spark3")
lazy val spark40 = shim("4.0.1", "2.13.16", "scala-spark4")
lazy val root = project.in(file(".")).aggregate(spark35, spark40).settings(publish / skip := true)
