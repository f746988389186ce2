import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * A JDBC client: runs each line of stdin as a statement, and answers with one line: `ok`, or
 * `error` and the message, whose line ends are shown as a backslash and an n.
 */
public final class Statements {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    try (Connection connection = DriverManager.getConnection(arguments[0], "nobody", "")) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        System.out.println(answer(connection, line));
      }
    }
  }

  private static String answer(Connection connection, String text) {
    try (Statement statement = connection.createStatement()) {
      if (statement.execute(text)) {
        ResultSet rows = statement.getResultSet();
        while (rows.next()) {
          rows.getString(1);
        }
      }
      return "ok";
    } catch (SQLException e) {
      return "error " + e.getMessage().replace("\n", "\\n");
    }
  }
}
