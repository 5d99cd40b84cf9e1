import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Sets how many children a node has had, which is the number in the name of the next child, in the data of a server that does not run.
 *
 * <pre>
 * Children DIRECTORY PATH COUNT
 * </pre>
 */
public final class Children {
    private Children() {}

    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[0]);
        FileTxnSnapLog files = new FileTxnSnapLog(directory, directory);
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        files.restore(tree, sessions, (header, transaction, digest) -> {});
        tree.getNode(arguments[1]).stat.setCversion(Integer.parseInt(arguments[2]));
        files.save(tree, sessions, true);
        files.close();
    }
}
