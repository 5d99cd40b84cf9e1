//! [`Progress`]: a subscriber of the library's traces that tells the user what matters of outages and losses.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use distlock::sync::Mutex;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{outage_throttle::OutageThrottle, output::Output, render};

/// It relies on the names of events and fields that `distlock::telemetry` promises.
#[derive(Debug)]
pub(crate) struct Progress {
    output: Output,
    outages: Mutex<OutageThrottle>,
}

impl Progress {
    /// Subscribes for as long as the process lives. A process takes one lock.
    pub(crate) fn subscribe(output: &Output) {
        let progress = Self { output: output.clone(), outages: Mutex::default() };
        // Nothing else in this program sets one.
        let _ = tracing::subscriber::set_global_default(progress);
    }

    fn report(&self, fields: &Fields) {
        let name = &fields.name;
        match fields.message.as_str() {
            "lock suspect" => {
                let left = render::duration(Duration::from_millis(fields.remaining_ms));
                self.output.timed_line(format!(
                    "a renewal of `{name}` failed; it is held for {left} more, and tried again"
                ));
            }
            "lock recovered" => self.output.timed_line(format!("`{name}` is renewed again")),
            "place lost" => {
                self.output
                    .timed_line(format!("the place in the queue of `{name}` was lost; waiting at its end"));
            }
            "store away" => {
                let mut outages = self.outages.lock();
                if outages.should_report(Instant::now()) {
                    self.output
                        .timed_line(format!("the store does not answer, trying again ({})", fields.error));
                }
            }
            _ => {}
        }
    }
}

impl Subscriber for Progress {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "distlock" && metadata.is_event() && *metadata.level() <= Level::INFO
    }

    // Spans are not enabled.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.report(&fields);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Fields {
    message: String,
    name: String,
    error: String,
    remaining_ms: u64,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "remaining_ms" {
            self.remaining_ms = value;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = match field.name() {
            "message" => &mut self.message,
            "name" => &mut self.name,
            "error" => &mut self.error,
            _ => return,
        };
        *text = format!("{value:?}");
    }
}
