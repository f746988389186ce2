import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;

/** An application on the JVM: each argument is an SQL statement, and `/path` a table to make. */
public final class Rides {
  public static void main(String[] arguments) {
    SparkSession spark = SparkSession.builder().appName("rides").getOrCreate();
    for (String argument : arguments) {
      if (argument.startsWith("/")) {
        byPath(spark, argument);
      } else {
        show(spark.sql(argument));
      }
    }
    // It does not stop the session: what it started has to end all the same.
  }

  private static void byPath(SparkSession spark, String path) {
    spark.range(3).write().format("pyhudi").mode(SaveMode.Append)
        .option("hoodie.datasource.write.recordkey.field", "id").save(path);
    show(spark.read().format("pyhudi").load(path).orderBy("id"));
  }

  private static void show(Dataset<Row> found) {
    List<Row> rows = found.collectAsList();
    rows.forEach(row -> System.out.println("row " + row.mkString("\t")));
  }
}
