//! Prints states and actions, for readers of a counterexample.

use std::fmt;

use super::{
    Call, Client, Phase, SystemState,
    model::{Action, Fate, Trip},
};
use crate::types::name;

/// One line: the queue, each client, and the late requests.
impl fmt::Display for SystemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("queue [")?;
        for (i, row) in self.store.rows.iter().enumerate() {
            let (comma, is) = (if i == 0 { "" } else { ", " }, if row.admitted { "in" } else { "waits" });
            write!(f, "{comma}{:?} #{} {is} {}", row.id, row.token.0, row.lease)?;
        }
        f.write_str("]")?;
        for (client, state) in (0..).zip(&self.clients) {
            write!(f, " · {} {state}", name(client))?;
        }
        for stray in &self.strays {
            write!(f, " · late: {:?} {:?}", stray.id, stray.verb)?;
        }
        Ok(())
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.phase {
            Phase::Idle => f.write_str("idle")?,
            Phase::Seeking(place) => {
                write!(f, "seeks")?;
                if let Some(token) = place.token {
                    write!(f, " #{}", token.0)?;
                }
                if let Some(listening) = place.listening {
                    write!(f, " place {} look in {}", listening.valid, listening.look)?;
                }
                if let Some(hint) = place.hint {
                    write!(f, " hint #{}", hint.0)?;
                }
                if place.given_up {
                    f.write_str(" given up")?;
                }
            }
            Phase::Holding(guard) => write!(f, "HOLDS #{} for {}", guard.token.0, guard.valid)?,
        }
        if let Some(call) = self.call() {
            write!(f, " {call}")?;
        }
        for pending in &self.pending_leaves {
            write!(f, " owes {:?}", pending.id)?;
        }
        if self.deaf { f.write_str(" deaf") } else { Ok(()) }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reply {
            None => write!(f, "asked {:?} {} ago", self.verb, self.age),
            Some(reply) => write!(f, "is answered {reply:?}, asked {} ago", self.age),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Acquire(client, trip) => write!(f, "{} asks for the lock{}", name(client), trip.words()),
            Self::Enter(client, trip) => write!(f, "{} looks again{}", name(client), trip.words()),
            Self::Renew(client, trip) => write!(f, "{} renews{}", name(client), trip.words()),
            Self::Serve(client) => write!(f, "the store does what {} asked", name(client)),
            Self::Answer(client) => write!(f, "{} gets its answer", name(client)),
            Self::GiveUp { client, late } => {
                write!(f, "{} stops waiting for the answer{}", name(client), may_arrive(late))
            }
            Self::Drop { client, late } => {
                write!(f, "{} drops its future or guard{}", name(client), may_arrive(late))
            }
            Self::Lapse(client) => write!(f, "the keeper of {} sees that a lease has ended", name(client)),
            Self::Leave { client, fate, .. } => {
                let what = match fate {
                    Fate::Confirmed => "",
                    Fate::Unanswered => ": done, not answered",
                    Fate::Late => ": on its way, not answered",
                };
                write!(f, "the keeper of {} leaves{what}", name(client))
            }
            Self::Crash(client) => write!(f, "{} crashes, and starts again", name(client)),
            Self::Arrive(stray) => write!(f, "a late request arrives: {:?} {:?}", stray.id, stray.verb),
            Self::Hint(client) => write!(f, "{} gets its hint", name(client)),
            Self::LoseHint(client) => write!(f, "the hint for {} is lost", name(client)),
            Self::Unsubscribe(client) => write!(f, "the subscription of {} breaks", name(client)),
            Self::Subscribe(client) => write!(f, "{} has a new subscription", name(client)),
            Self::Tick { still: 0 } => f.write_str("time goes by"),
            Self::Tick { still } => {
                write!(f, "time goes by, but not for")?;
                (0..8).filter(|client| still & (1 << client) != 0).try_for_each(|c| write!(f, " {}", name(c)))
            }
        }
    }
}

impl Trip {
    const fn words(self) -> &'static str {
        match self {
            Self::Answered => "",
            Self::RequestLost => ": the request is lost",
            Self::ReplyLost => ": done, the answer is lost",
            Self::Repeated => ": done and answered, and on its way once more",
            Self::Slow => ": on its way",
        }
    }
}

const fn may_arrive(late: bool) -> &'static str {
    if late { "; the request is still on its way" } else { "" }
}
