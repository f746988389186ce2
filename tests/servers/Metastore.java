import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's Metastore on loopback, locks in an embedded Derby: port and folder are the arguments. */
public final class Metastore {
  public static void main(String[] args) throws Exception {
    System.setProperty(
        "javax.jdo.option.ConnectionURL", "jdbc:derby:;databaseName=" + args[1] + ";create=true");
    HiveConf conf = new HiveConf();
    // A request for a lock takes two of them: of ten, ten requests at once take one each and wait.
    conf.setIntVar(HiveConf.ConfVars.METASTORE_CONNECTION_POOLING_MAX_CONNECTIONS, 100);
    TxnDbUtil.setConfValues(conf);
    TxnDbUtil.prepDb(conf);
    // What Hive's AcidHouseKeeperService does, more often: it ends the locks that are silent.
    Executors.newSingleThreadScheduledExecutor()
        .scheduleWithFixedDelay(
            () -> TxnUtils.getTxnStore(conf).performTimeOuts(), 0, 200, TimeUnit.MILLISECONDS);
    var handler = HiveMetaStore.newRetryingHMSHandler("test", conf, true);
    new TThreadPoolServer(
            new TThreadPoolServer.Args(
                    new TServerSocket(
                        new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]))))
                .processor(new ThriftHiveMetastore.Processor<>(handler)))
        .serve();
  }
}
