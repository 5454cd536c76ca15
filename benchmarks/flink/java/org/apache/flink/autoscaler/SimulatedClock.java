package org.apache.flink.autoscaler;

import java.time.Clock;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;

/**
 * A clock that stands at the time of the look, and the one way to hand it to all parts of the autoscaler: the setters
 * that Flink keeps for its own tests are open to its package only, hence this class's place.
 */
public final class SimulatedClock extends Clock {

    private Instant now = Instant.EPOCH;

    /** Moves the clock. */
    public void set(Instant instant) {
        now = instant;
    }

    /**
     * Gives every part that asks for the time this clock.
     *
     * @throws ReflectiveOperationException if another version of the autoscaler keeps its parts elsewhere
     */
    public <K, C extends JobAutoScalerContext<K>> void drive(
            JobAutoScalerImpl<K, C> autoScaler,
            ScalingMetricCollector<K, C> collector,
            ScalingExecutor<K, C> executor)
            throws ReflectiveOperationException {
        autoScaler.setClock(this);
        collector.setClock(this);
        // the executor makes its vertex scaler itself, which times delayed scale-downs
        var field = ScalingExecutor.class.getDeclaredField("jobVertexScaler");
        field.setAccessible(true);
        ((JobVertexScaler<?, ?>) field.get(executor)).setClock(this);
    }

    @Override
    public Instant instant() {
        return now;
    }

    @Override
    public ZoneId getZone() {
        return ZoneOffset.UTC;
    }

    @Override
    public Clock withZone(ZoneId zone) {
        return this;
    }
}
