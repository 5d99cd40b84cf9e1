//! [`Case`]: one promise of the suite, and when it can be shown.

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The group, which is the module of its test.
    pub group: &'static str,
    /// The promise, as the name of its test.
    pub name: &'static str,
    /// The labels of what it shows, out of [`REQUIRED`].
    pub ids: &'static [&'static str],
}

/// The labels of the cases in which a hint has to come.
const BY_HINTS: &[&str] = &["L04", "L05", "T15", "T16", "PR14"];

/// The cases that show nothing without notifications: those are cut, silent or early, a loss is reported before any renewal, or the
/// looks of waiters that rely on notifications are counted.
pub(crate) const ABOUT_NOTIFICATIONS: &[(&str, &str)] = &[
    ("liveness", "waiters_go_on_when_their_notifications_are_cut"),
    ("lost_signal", "the_signal_comes_at_once_when_an_operator_evicts_the_holder"),
    ("fairness", "a_hand_off_costs_the_same_however_many_wait"),
    ("liveness", "waiters_look_again_when_their_notifications_come_back"),
    ("wire", "a_hint_that_overtakes_the_answer_to_a_look_is_not_lost"),
    ("wire", "a_silent_notification_connection_is_noticed_in_the_promised_time"),
    ("wire", "all_waiters_look_again_when_their_notifications_come_back"),
    ("alone", "a_look_of_a_waiter_costs_the_same_however_many_wait"),
];

impl Case {
    /// Whether it shows what one of these labels stands for. A [`Harness`](crate::Harness) gives the cases that disturb a server one of
    /// their own.
    #[must_use]
    pub fn shows(&self, labels: &[&str]) -> bool {
        self.ids.iter().any(|id| labels.contains(id))
    }

    /// Whether it shows that hints arrive. Its clients then look again at a third of their ttl, as every waiter does, but not when the
    /// store says so: with a store that asks for a look every few seconds, a lost hint would not be noticed.
    #[must_use]
    pub fn is_about_hints(&self) -> bool {
        self.shows(BY_HINTS)
    }

    /// Whether it shows nothing in that mode on a store that has no notifications.
    pub(crate) fn needs_notifications(&self, mode: Mode) -> bool {
        mode == Mode::WithoutPolling || ABOUT_NOTIFICATIONS.contains(&(self.group, self.name))
    }
}

/// How the clients of a case learn that they are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By hints and by looking again, as users' clients do.
    Both,
    /// Only by looking again: no hint ever comes.
    WithoutHints,
    /// Only by hints: no waiter looks again by itself before the case has ended.
    WithoutPolling,
}

/// The labels that the suite has to carry, each by at least one case.
pub const REQUIRED: &[&str] = &[
    "X01", "X02", "X03", "X04", "X05", "X06", "X07", "X08", "X09", "X10", "X11", "X12", "X13", "X14", "X15",
    "L01", "L02", "L03", "L04", "L05", "L06", "L08", "L09", "L10", "L12", "E01", "E02", "E03", "E04", "E05",
    "E06", "E07", "E10", "R01", "R02", "R03", "R04", "R05", "R06", "R07", "R08", "R09", "R10", "R11", "R12",
    "R13", "F01", "F02", "F03", "F04", "F05", "F07", "F09", "F10", "F11", "F12", "F15", "N01", "Q01", "Q02",
    "Q04", "C01", "C02", "C03", "C04", "C05", "C07", "C08", "C09", "C10", "C11", "C12", "C13", "C14", "C15",
    "C16", "C17", "C18", "C19", "C20", "K03", "I01", "I02", "I03", "I04", "I05", "I06", "I07", "I08", "I09",
    "S01", "S02", "S03", "S04", "S05", "S06", "S07", "S08", "S09", "W01", "W02", "W03", "W04", "W06", "W07",
    "P01", "P02", "P03", "P04", "P05", "PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08",
    "PR09", "PR10", "PR11", "PR12", "PR13", "PR14", "PR35", "T01", "T02", "T03", "T04", "T05", "T06", "T07",
    "T08", "T09", "T10", "T11", "T15", "T16", "T18", "T19", "T20", "T21", "T24", "G01", "G02", "G03", "G04",
    "G05", "G06", "G07",
];
