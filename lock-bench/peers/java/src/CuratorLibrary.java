import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryOneTime;

/** Curator: `InterProcessMutex`, and its read-write lock and semaphore. */
final class CuratorLibrary implements Library {
    private static final int PERMITS = 8;
    private final CuratorFramework client;

    CuratorLibrary(String address, long ttlMs) throws InterruptedException {
        client = CuratorFrameworkFactory.newClient(address, (int) ttlMs, (int) ttlMs, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
    }

    @Override
    public Contender lock(String name, String role) {
        String path = "/curator/" + name;
        switch (role) {
            case "read":
                return contender(new InterProcessReadWriteLock(client, path).readLock());
            case "write":
                return contender(new InterProcessReadWriteLock(client, path).writeLock());
            case "permit":
                return permit(new InterProcessSemaphoreV2(client, path, PERMITS));
            default:
                return contender(new InterProcessMutex(client, path));
        }
    }

    @Override
    public List<String> kinds() {
        return List.of("mutex", "rw", "semaphore");
    }

    @Override
    public String version() {
        return Driver.versionOf("curator-recipes");
    }

    private static Contender contender(InterProcessLock lock) {
        return new Contender() {
            @Override
            public void acquire() throws Exception {
                lock.acquire();
            }

            @Override
            public boolean release() throws Exception {
                lock.release();
                return true;
            }
        };
    }

    private static Contender permit(InterProcessSemaphoreV2 semaphore) {
        return new Contender() {
            private Lease lease;

            @Override
            public void acquire() throws Exception {
                lease = semaphore.acquire();
            }

            @Override
            public boolean release() {
                semaphore.returnLease(lease);
                return true;
            }
        };
    }
}
