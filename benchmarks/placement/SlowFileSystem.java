import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** Local files under {@code slow:}, at the latency of an object store: 50 ms to open, make, rename or list. */
public final class SlowFileSystem extends RawLocalFileSystem {
  private static final URI NAME = URI.create("slow:///");
  private static final long LATENCY_MS = 50;

  @Override
  public URI getUri() {
    return NAME;
  }

  @Override
  public String getScheme() {
    return NAME.getScheme();
  }

  @Override
  public FSDataInputStream open(Path file, int bufferSize) throws IOException {
    delay();
    return super.open(file, bufferSize);
  }

  @Override
  public FSDataOutputStream create(
      Path file,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    delay();
    return super.create(file, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    delay();
    return super.rename(from, to);
  }

  @Override
  public FileStatus[] listStatus(Path folder) throws IOException {
    delay();
    return super.listStatus(folder);
  }

  private static void delay() throws IOException {
    try {
      Thread.sleep(LATENCY_MS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException(interrupted);
    }
  }
}
