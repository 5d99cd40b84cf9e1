//! The creation of free mutexes by plain commands in one transaction, which costs the server less than a script (ADR 28).

use lock_core::FencingToken;
use redis::{Cmd, Pipeline, Value};

use crate::request::Request;

/// How many commands create one.
pub(crate) const COMMANDS: usize = 3;

/// Adds the transaction for [creates](Request::create_plainly). Its last answer is that of `EXEC`, with [`COMMANDS`] parts for each.
///
/// It is not an `atomic` pipeline of the driver: that would turn a refusal into an error of its own.
pub(crate) fn add_transaction<'a>(pipeline: &mut Pipeline, creates: impl Iterator<Item = &'a Request>) {
    pipeline.add_command(command(0, &[b"MULTI"]));
    for Request { keys, args, .. } in creates {
        let [queue, counter, lock] = [0, 1, 2].map(|i| keys[i].as_slice());
        let [value, ttl] = [0, 1].map(|i| args[i].as_slice());
        pipeline.add_command(command(queue.len(), &[b"EXISTS", queue]));
        pipeline.add_command(command(counter.len(), &[b"XADD", counter, b"MAXLEN", b"0", b"*", b"t", b""]));
        let size = lock.len() + value.len() + ttl.len();
        pipeline.add_command(command(size, &[b"SET", lock, value, b"NX", b"PX", ttl]));
    }
    pipeline.add_command(command(0, &[b"EXEC"]));
}

/// `size`: of all words but the fixed ones.
fn command(size: usize, words: &[&[u8]]) -> Cmd {
    let mut command = Cmd::with_capacity(words.len(), size + 16);
    for word in words {
        command.arg(*word);
    }
    command
}

/// The token, if these parts of the answer are a grant: nobody waited, and the key was free. Otherwise a script has to decide, and may find
/// the entry as the holder.
pub(crate) fn granted(parts: &Value) -> Option<FencingToken> {
    let Value::Array(parts) = parts else { return None };
    let [Value::Int(0), Value::BulkString(id), Value::Okay] = parts.as_slice() else { return None };
    token(std::str::from_utf8(id).ok()?)
}

/// The token for the id of an entry in the counter. `None` for one that needs care: the clock stands still, or is behind the counter.
fn token(id: &str) -> Option<FencingToken> {
    let (ms, sequence) = id.split_once('-')?;
    let (ms, sequence) = (ms.parse::<u64>().ok()?, sequence.parse::<u64>().ok()?);
    (sequence < 1000 && ms < MOST_MS).then(|| FencingToken::new(ms * 1000 + sequence))
}

/// Up to here, Lua has each ms exactly.
const MOST_MS: u64 = (1 << 53) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(queue: i64, id: &str, set: Value) -> Value {
        Value::Array(vec![Value::Int(queue), Value::BulkString(id.into()), set])
    }

    #[test]
    fn a_free_key_without_a_queue_is_a_grant_and_all_else_is_none() {
        let token = |answer: &Value| granted(answer).map(FencingToken::get);
        assert_eq!(token(&answer(0, "1795201861000-467", Value::Okay)), Some(1_795_201_861_000_467));
        assert_eq!(token(&answer(0, "1795201861000-0", Value::Okay)), Some(1_795_201_861_000_000));
        assert_eq!(token(&answer(1, "1795201861000-467", Value::Okay)), None, "somebody waits");
        assert_eq!(token(&answer(0, "1795201861000-467", Value::Nil)), None, "somebody holds it");
        assert_eq!(token(&answer(0, "1795201861000-1000", Value::Okay)), None, "it would be the next ms");
        assert_eq!(token(&answer(0, "9007199254740991-0", Value::Okay)), None, "the counter is at its end");
        assert_eq!(token(&Value::Nil), None);
        assert_eq!(token(&Value::Array(Vec::new())), None);
    }
}
