import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * A JDBC client: the second argument is a statement that another thread cancels when something
 * comes by stdin; those behind it run on the same connection afterwards.
 */
public final class Cancelled {
  public static void main(String[] arguments) throws Exception {
    try (Connection connection = DriverManager.getConnection(arguments[0], "nobody", "");
        Statement cancelled = connection.createStatement()) {
      Thread canceller = new Thread(() -> cancelWhenTold(cancelled));
      canceller.start();
      try {
        cancelled.execute(arguments[1]);
        System.out.println("done");
      } catch (SQLException e) {
        System.out.println("error " + e.getMessage().replace('\n', ' '));
      }
      canceller.join();
      for (int at = 2; at < arguments.length; at++) {
        show(connection, arguments[at]);
      }
    }
  }

  private static void cancelWhenTold(Statement statement) {
    try {
      System.in.read();
      statement.cancel();
    } catch (IOException | SQLException e) {
      System.out.println("not cancelled: " + e.getMessage());
    }
  }

  private static void show(Connection connection, String text) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      if (statement.execute(text)) {
        ResultSet rows = statement.getResultSet();
        while (rows.next()) {
          System.out.println("row " + rows.getString(1));
        }
      }
    }
  }
}
