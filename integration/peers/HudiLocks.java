import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.client.transaction.lock.StorageBasedLockProvider;
import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.metrics.HoodieLockMetrics;
import org.apache.hudi.client.transaction.lock.models.HeartbeatManager;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockProviderHeartbeatManager;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.lock.LockProvider;
import org.apache.hudi.common.util.Functions;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Apache Hudi's own lock providers, told on standard input what to do; words are parted by tabs.
 *
 * <p>"open NAME CLASS KEY=VALUE...", "try NAME MILLIS" and "unlock NAME" are answered by a line
 * that begins with "answer".
 */
public final class HudiLocks {
  private static final Map<String, LockProvider<?>> PROVIDERS = new HashMap<>();

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err);
    var commands = new BufferedReader(new InputStreamReader(System.in));
    answers.println("answer ready");
    for (String line; (line = commands.readLine()) != null; ) {
      String answer;
      try {
        answer = obey(line.split("\t"));
      } catch (Throwable e) {
        e.printStackTrace();
        answer = "failed " + e.toString().replace('\n', ' ');
      }
      answers.println("answer " + answer);
    }
    System.exit(0);
  }

  private static String obey(String[] words) throws Exception {
    switch (words[0]) {
      case "open":
        TypedProperties properties = new TypedProperties();
        for (int i = 3; i < words.length; i++) {
          String[] pair = words[i].split("=", 2);
          properties.setProperty(pair[0], pair[1]);
        }
        PROVIDERS.put(words[1], open(words[2], properties));
        return "opened";
      case "try":
        try {
          long millis = Long.parseLong(words[2]);
          return String.valueOf(PROVIDERS.get(words[1]).tryLock(millis, TimeUnit.MILLISECONDS));
        } catch (org.apache.hudi.exception.HoodieLockException e) {
          return "false " + e.getMessage();
        }
      case "unlock":
        PROVIDERS.get(words[1]).unlock();
        return "unlocked";
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private static LockProvider<?> open(String name, TypedProperties properties) throws Exception {
    if (name.equals(StorageBasedLockProvider.class.getName())) {
      return storageBased(properties);
    }
    return (LockProvider<?>)
        Class.forName(name)
            .getConstructor(LockConfiguration.class, StorageConfiguration.class)
            .newInstance(
                new LockConfiguration(properties),
                new HadoopStorageConfiguration(new Configuration()));
  }

  /** Hudi's provider over an endpoint that needs no signature: its S3 client is in no bundle. */
  private static LockProvider<?> storageBased(TypedProperties properties) throws Exception {
    String endpoint = properties.getString("endpoint");
    Functions.Function3<String, Long, java.util.function.Supplier<Boolean>, HeartbeatManager>
        heartbeats =
            (owner, millis, beat) -> new LockProviderHeartbeatManager(owner, millis, beat);
    Functions.Function3<String, String, TypedProperties, StorageLockClient> clients =
        (owner, path, ignored) -> new PlainS3(URI.create(path.replace("s3a://", endpoint + "/")));
    var constructor =
        StorageBasedLockProvider.class.getDeclaredConstructor(
            String.class,
            TypedProperties.class,
            Functions.Function3.class,
            Functions.Function3.class,
            Logger.class,
            HoodieLockMetrics.class);
    constructor.setAccessible(true);
    return constructor.newInstance(
        java.util.UUID.randomUUID().toString(),
        properties,
        heartbeats,
        clients,
        LoggerFactory.getLogger(HudiLocks.class),
        null);
  }

  /** The object as Hudi's S3 client treats it: If-None-Match and If-Match with the ETag. */
  private static final class PlainS3 implements StorageLockClient {
    private final HttpClient http = HttpClient.newHttpClient();
    private final URI object;

    PlainS3(URI object) {
      this.object = object;
    }

    @Override
    public Pair<LockUpsertResult, Option<StorageLockFile>> tryUpsertLockFile(
        StorageLockData data, Option<StorageLockFile> previous) {
      var put =
          HttpRequest.newBuilder(object)
              .PUT(HttpRequest.BodyPublishers.ofByteArray(StorageLockFile.toByteArray(data)));
      if (previous.isPresent()) {
        put.header("If-Match", previous.get().getVersionId());
      } else {
        put.header("If-None-Match", "*");
      }
      HttpResponse<byte[]> answer = send(put.build());
      if (answer.statusCode() == 412) {
        return Pair.of(LockUpsertResult.ACQUIRED_BY_OTHERS, Option.empty());
      }
      if (answer.statusCode() != 200) {
        return Pair.of(LockUpsertResult.UNKNOWN_ERROR, Option.empty());
      }
      String tag = answer.headers().firstValue("ETag").orElseThrow();
      return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, tag)));
    }

    @Override
    public Pair<LockGetResult, Option<StorageLockFile>> readCurrentLockFile() {
      HttpResponse<byte[]> answer = send(HttpRequest.newBuilder(object).GET().build());
      if (answer.statusCode() == 404) {
        return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
      }
      if (answer.statusCode() != 200) {
        return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
      }
      String tag = answer.headers().firstValue("ETag").orElseThrow();
      var content = new ByteArrayInputStream(answer.body());
      return Pair.of(
          LockGetResult.SUCCESS, Option.of(StorageLockFile.createFromStream(content, tag)));
    }

    private HttpResponse<byte[]> send(HttpRequest request) {
      try {
        return http.send(request, HttpResponse.BodyHandlers.ofByteArray());
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }

    @Override
    public Option<String> readObject(String path, boolean checkExistsFirst) {
      return Option.empty();
    }

    @Override
    public boolean writeObject(String path, String content) {
      return false;
    }

    @Override
    public void close() {}
  }
}
