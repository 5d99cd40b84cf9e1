//! Finds counters of tokens with which locks cannot be taken, or whose loss would let tokens repeat.

use lock_core::{BackendError, BackendErrorKind as Kind, Diagnosis, excerpt};
use redis::Value;

use crate::{client::Client, error::STORE, keys, scripts::COUNTERS, server_info::text};

/// How many counters the server looks at before it serves other clients.
const AT_ONCE: usize = 512;

/// A counter is ahead of the clock by more than this many ms only if somebody raised it, or set the clock back.
const AHEAD: u64 = 60_000;

/// The ms of the first id from which the scripts make no token.
const END: u64 = (1 << 53) - 1;

/// Adds how many counters there are, and a problem for each kind of flaw.
pub(super) async fn check(
    client: &Client,
    prefix: &str,
    diagnosis: &mut Diagnosis,
) -> Result<(), BackendError> {
    let all: Vec<_> = keys::counters(prefix).collect();
    let (mut present, mut flaws) = (0, Flaws::default());
    for keys in all.chunks(AT_ONCE) {
        let answer = match client.call(&COUNTERS, keys, &[]).await {
            Ok(answer) => answer,
            // The user may not, or the server cannot: that it is a node of a cluster, for one, is a problem of its own.
            Err(error) if is_refused(error.kind()) => {
                diagnosis.facts.push(("token counters", "not told".to_owned()));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let Some((now, counters)) = read(&answer, keys) else {
            let message = format!("{} sent a malformed answer about its token counters", client.server());
            return Err(BackendError::new(STORE, Kind::Protocol, message));
        };
        present += counters.len();
        for counter in &counters {
            flaws.note(counter, now);
        }
    }
    diagnosis.facts.push(("token counters", format!("{present} of {}", all.len())));
    diagnosis.problems.extend(flaws.problems());
    Ok(())
}

fn is_refused(kind: &Kind) -> bool {
    matches!(kind, Kind::Denied | Kind::Unsupported | Kind::Unavailable | Kind::WrongServer(_))
}

/// A counter that exists.
#[derive(Debug)]
struct Counter {
    /// As `redis-cli` shows it.
    key: String,
    /// The ms of its last id, or the type of a key that is no counter.
    last: Result<u64, String>,
}

/// The time of the server in ms, and the counters that exist.
fn read(answer: &Value, keys: &[Vec<u8>]) -> Option<(u64, Vec<Counter>)> {
    let Value::Array(parts) = answer else { return None };
    let (now, counters) = parts.split_first()?;
    let now = text(now)?.parse().ok()?;
    let counters = counters.iter().map(|counter| read_counter(counter, keys)).collect::<Option<_>>()?;
    Some((now, counters))
}

fn read_counter(counter: &Value, keys: &[Vec<u8>]) -> Option<Counter> {
    let Value::Array(parts) = counter else { return None };
    let [Value::Int(number), kind, last] = parts.as_slice() else { return None };
    let key = keys.get(usize::try_from(*number).ok()?.checked_sub(1)?)?;
    let kind = text(kind)?;
    let last = if kind == "stream" {
        Ok(text(last)?.split_once('-')?.0.parse().ok()?)
    } else {
        Err(excerpt(format_args!("{kind}")))
    };
    Some(Counter { key: excerpt(format_args!("{}", key.escape_ascii())), last })
}

/// For each kind of flaw, how many counters have it, and one of them.
#[derive(Debug, Default)]
struct Flaws {
    /// With the type of the key.
    foreign: (usize, Option<(String, String)>),
    at_end: (usize, Option<String>),
    /// The one that is ahead most, with the ms by which it is.
    ahead: (usize, Option<(u64, String)>),
}

impl Flaws {
    fn note(&mut self, counter: &Counter, now: u64) {
        let key = || counter.key.clone();
        match &counter.last {
            Err(kind) => {
                self.foreign.0 += 1;
                self.foreign.1.get_or_insert_with(|| (key(), kind.clone()));
            }
            Ok(last) if *last >= END => {
                self.at_end.0 += 1;
                self.at_end.1.get_or_insert_with(key);
            }
            Ok(last) if last.saturating_sub(now) > AHEAD => {
                self.ahead.0 += 1;
                let this = Some((last - now, key()));
                if this > self.ahead.1 {
                    self.ahead.1 = this;
                }
            }
            Ok(_) => {}
        }
    }

    fn problems(self) -> Vec<String> {
        let mut problems = Vec::new();
        if let (count, Some((key, kind))) = self.foreign {
            problems.push(format!(
                "no lock can be taken in {}, because the key \"{key}\" holds a {kind} and no counter of tokens: delete it",
                slots(count)
            ));
        }
        if let (count, Some(key)) = self.at_end {
            problems.push(format!(
                "no lock can be taken in {}, because the token counter \"{key}\" is at its end: delete it, and have resources forget \
                 the tokens that they have seen",
                slots(count)
            ));
        }
        if let (count, Some((ms, key))) = self.ahead {
            problems.push(format!(
                "tokens in {} are ahead of the server's clock, by {ms} ms in \"{key}\", so they repeat if the counter is lost: if the \
                 clock was set back, set it right; if the counter was raised by mistake and no resource has seen its tokens, delete it",
                slots(count)
            ));
        }
        problems
    }
}

fn slots(count: usize) -> String {
    if count == 1 { "one slot".to_owned() } else { format!("{count} slots") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_201_861_000;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn problems(counters: &[(&str, &str)]) -> Vec<String> {
        let keys: Vec<_> = (1..=counters.len()).map(|i| format!("p:\u{ff}{i}").into_bytes()).collect();
        let row = |(i, (kind, last)): (i64, &(&str, &str))| {
            Value::Array(vec![Value::Int(i), bulk(kind), bulk(last)])
        };
        let rows = (1..).zip(counters).map(row);
        let answer = [bulk(&NOW.to_string())].into_iter().chain(rows).collect();
        let (now, counters) = read(&Value::Array(answer), &keys).unwrap();
        let mut flaws = Flaws::default();
        for counter in &counters {
            flaws.note(counter, now);
        }
        flaws.problems()
    }

    #[test]
    fn counters_near_the_clock_are_no_problem() {
        let last = [format!("{NOW}-0"), format!("{}-999", NOW + 60_000), "0-1".to_owned()];
        assert_eq!(problems(&last.each_ref().map(|last| ("stream", last.as_str()))), [""; 0]);
    }

    #[test]
    fn each_flaw_is_one_sentence_that_names_a_key_and_counts_the_slots() {
        let (far, farther) = (format!("{}-0", NOW + 60_001), format!("{}-0", NOW + 90_000));
        for (counters, says) in [
            (&[("list", ""), ("hash", "")][..], ["2 slots", "p:\\xc3\\xbf1\" holds a list"]),
            (&[("stream", "9007199254740991-0")][..], ["one slot", "p:\\xc3\\xbf1\" is at its end"]),
            (&[("stream", "18446744073709551615-18446744073709551615")][..], ["one slot", "is at its end"]),
            (
                &[("stream", far.as_str()), ("stream", farther.as_str())][..],
                ["2 slots", "by 90000 ms in \"p:\\xc3\\xbf2\""],
            ),
        ] {
            let found = problems(counters);
            let said = |part: &&str| found[0].contains(*part);
            assert!(found.len() == 1 && says.iter().all(said), "{counters:?}: {found:?}");
        }
    }

    #[test]
    fn an_answer_that_the_script_does_not_give_is_not_understood() {
        let keys = [b"key".to_vec()];
        let of = |parts: Vec<Value>| read(&Value::Array(parts), &keys).is_none();
        let row = |number, last| Value::Array(vec![Value::Int(number), bulk("stream"), bulk(last)]);
        assert!(read(&Value::Nil, &keys).is_none());
        assert!(of(vec![]) && of(vec![bulk("soon")]) && of(vec![bulk("1"), Value::Nil]));
        assert!(of(vec![bulk("1"), row(0, "1-1")]) && of(vec![bulk("1"), row(2, "1-1")]));
        assert!(of(vec![bulk("1"), row(1, "")]) && of(vec![bulk("1"), row(1, "x-1")]));
        assert!(!of(vec![bulk("1"), row(1, "1-1")]));
    }
}
