//! [`run_script`]: one script on one connection.

use redis::{Cmd, RedisResult, ServerErrorKind, Value, aio::MultiplexedConnection};

use crate::scripts::Script;

/// Runs a script by its digest. If the server does not know the script, and so did not run it, sends its source.
pub(super) async fn run_script(
    multiplexed: &mut MultiplexedConnection,
    script: &Script,
    keys: &[impl AsRef<[u8]> + Sync],
    args: &[impl AsRef<[u8]> + Sync],
) -> RedisResult<Value> {
    let answer = multiplexed.send_packed_command(&evaluate("EVALSHA", script.sha(), keys, args)).await?;
    match &answer {
        Value::ServerError(refusal) if refusal.kind() == Some(ServerErrorKind::NoScript) => {
            multiplexed.send_packed_command(&evaluate("EVAL", script.source(), keys, args)).await
        }
        _ => Ok(answer),
    }
}

fn evaluate(verb: &str, script: &str, keys: &[impl AsRef<[u8]>], args: &[impl AsRef<[u8]>]) -> Cmd {
    let keys_and_args = || keys.iter().map(AsRef::as_ref).chain(args.iter().map(AsRef::as_ref));
    let size = keys_and_args().map(<[u8]>::len).sum::<usize>() + verb.len() + script.len() + 8;
    let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), size);
    command.arg(verb).arg(script).arg(keys.len());
    for one in keys_and_args() {
        command.arg(one);
    }
    command
}
