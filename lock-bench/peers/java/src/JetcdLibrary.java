import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.support.CloseableClient;
import io.etcd.jetcd.support.Observers;
import java.nio.charset.StandardCharsets;

/**
 * jetcd: the lock service of the server (v3lock). Each contender has a lease of its own, because the service treats two
 * requests with one lease and one name as the same contender.
 */
final class JetcdLibrary implements Library {
    private final Client client;
    private final long ttlSeconds;

    JetcdLibrary(String address, long ttlMs) {
        client = Client.builder().endpoints("http://" + address).build();
        ttlSeconds = ttlMs / 1000;
    }

    @Override
    public Contender lock(String name, String role) throws Exception {
        long lease = client.getLeaseClient().grant(ttlSeconds).get().getID();
        CloseableClient kept =
                client.getLeaseClient().keepAlive(lease, Observers.<LeaseKeepAliveResponse>observer(answer -> {}));
        ByteSequence bytes = ByteSequence.from(name, StandardCharsets.UTF_8);
        return new Contender() {
            private ByteSequence key;

            @Override
            public void acquire() throws Exception {
                key = client.getLockClient().lock(bytes, lease).get().getKey();
            }

            @Override
            public boolean release() throws Exception {
                client.getLockClient().unlock(key).get();
                return true;
            }

            @Override
            public void close() throws Exception {
                kept.close();
                client.getLeaseClient().revoke(lease).get();
            }
        };
    }

    @Override
    public String version() {
        return Driver.versionOf("jetcd-core");
    }
}
