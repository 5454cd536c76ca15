package millrace.flink;

import org.apache.flink.autoscaler.JobAutoScalerContext;
import org.apache.flink.autoscaler.event.AutoScalerEventHandler;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Keeps what the autoscaler tells its operator during a look: it never throws, so its errors are only found here. */
final class Events implements AutoScalerEventHandler<String, JobAutoScalerContext<String>> {

    private List<String> told = new ArrayList<>();
    private Throwable error;

    @Override
    public void handleEvent(
            JobAutoScalerContext<String> context,
            Type type,
            String reason,
            String message,
            String messageKey,
            Duration interval) {
        told.add(reason + ": " + message);
    }

    @Override
    public void handleException(JobAutoScalerContext<String> context, String reason, Throwable e) {
        error = e;
    }

    /** Returns what was told since the last call. */
    List<String> take() {
        var taken = told;
        told = new ArrayList<>();
        if (error != null) {
            var thrown = error;
            error = null;
            throw new IllegalStateException("the autoscaler failed: " + thrown, thrown);
        }
        return taken;
    }
}
