//! Sends verbs: one alone, or several in one go.

use futures_util::future::{join_all, join3};
use redis::{ErrorKind, Pipeline, RedisResult, ServerError, Value, aio::MultiplexedConnection};

use super::{queued_request::QueuedRequest, run_script::run_script};
use crate::{
    plain_create,
    request::{Form, Request},
    scripts::{BATCH, RELEASE, Script},
};

/// Sends one verb. The answer to a plain create is its part of that of `EXEC`, and no array if the server refused the transaction.
pub(super) async fn send_alone(
    multiplexed: &mut MultiplexedConnection,
    request: &Request,
) -> RedisResult<Value> {
    let Some(script) = request.script() else {
        let mut pipeline = Pipeline::with_capacity(plain_create::COMMANDS + 2);
        plain_create::add_transaction(&mut pipeline, std::iter::once(request));
        // Only the answer of `EXEC` tells anything.
        let answers = multiplexed.send_packed_commands(&pipeline, pipeline.len() - 1, 1).await?;
        return Ok(answers.into_iter().next().unwrap_or(Value::Nil));
    };
    let answer = run_script(multiplexed, script, &request.keys, &request.args).await?;
    Ok(match answer {
        Value::Array(answers) if request.form == Form::Release => {
            answers.into_iter().next().unwrap_or(Value::Nil)
        }
        answer => answer,
    })
}

/// Sends verbs in one go, and completes each: plain creates in one transaction, releases as one script, and all others as another.
/// Returns whether the server takes such scripts only one by one.
pub(super) async fn send_together(multiplexed: &MultiplexedConnection, batch: Vec<QueuedRequest>) -> bool {
    let (creates, scripts): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|queued| queued.request.form == Form::CreatePlainly);
    let (releases, verbs): (Vec<_>, Vec<_>) =
        scripts.into_iter().partition(|queued| queued.request.form == Form::Release);
    let one_by_one = join3(
        create_all(multiplexed.clone(), creates),
        run_all(multiplexed.clone(), &RELEASE, releases),
        run_all(multiplexed.clone(), &BATCH, verbs),
    )
    .await;
    <[bool; 3]>::from(one_by_one).contains(&true)
}

/// Creates several in one transaction. Returns whether the server takes only one at a time.
async fn create_all(mut multiplexed: MultiplexedConnection, creates: Vec<QueuedRequest>) -> bool {
    if creates.len() < 2 {
        send_each(&multiplexed, creates).await;
        return false;
    }
    let mut pipeline = Pipeline::with_capacity(plain_create::COMMANDS * creates.len() + 2);
    plain_create::add_transaction(&mut pipeline, creates.iter().map(|queued| &queued.request));
    let answers = match multiplexed.send_packed_commands(&pipeline, pipeline.len() - 1, 1).await {
        Ok(answers) => answers,
        Err(failure) => {
            fail(creates, &Err(failure));
            return false;
        }
    };
    let parts = match answers.into_iter().next() {
        Some(Value::Array(parts)) if parts.len() == plain_create::COMMANDS * creates.len() => parts,
        Some(Value::ServerError(refusal)) if refuses_batches(&refusal) => {
            send_each(&multiplexed, creates).await;
            return refusal.code() != "NOPERM";
        }
        // Nothing was carried out: each is decided by its script.
        _ => Vec::new(),
    };
    let mut parts = parts.into_iter();
    for queued in creates {
        queued.complete(Ok(Value::Array(parts.by_ref().take(plain_create::COMMANDS).collect())));
    }
    false
}

/// Runs a script for several verbs. Returns whether the server takes it only for one at a time.
async fn run_all(mut multiplexed: MultiplexedConnection, script: &Script, batch: Vec<QueuedRequest>) -> bool {
    if batch.len() < 2 {
        send_each(&multiplexed, batch).await;
        return false;
    }
    let keys: Vec<&[u8]> = batch.iter().flat_map(|queued| queued.request.keys()).collect();
    let ops: Vec<u8> = batch.iter().filter_map(|queued| queued.request.op()).collect();
    let mut args: Vec<&[u8]> = if ops.is_empty() { Vec::new() } else { vec![&ops] };
    args.extend(batch.iter().flat_map(|queued| queued.request.args()));
    let for_all = match run_script(&mut multiplexed, script, &keys, &args).await {
        Ok(Value::Array(answers)) if answers.len() == batch.len() => {
            for (queued, answer) in batch.into_iter().zip(answers) {
                queued.complete(Ok(answer));
            }
            return false;
        }
        // The script has run no verb.
        Ok(Value::SimpleString(word)) if word == "ALONE" => {
            send_each(&multiplexed, batch).await;
            return false;
        }
        Ok(Value::ServerError(refusal)) if refuses_batches(&refusal) => {
            send_each(&multiplexed, batch).await;
            return refusal.code() != "NOPERM";
        }
        Ok(Value::ServerError(refusal)) => Ok(Value::ServerError(refusal)),
        Ok(_) => Err((ErrorKind::UnexpectedReturnType, "the answer to a batch is malformed").into()),
        Err(failure) => Err(failure),
    };
    fail(batch, &for_all);
    false
}

/// Sends each verb as a command of its own.
async fn send_each(multiplexed: &MultiplexedConnection, batch: Vec<QueuedRequest>) {
    let sent = batch.into_iter().filter(|queued| !queued.is_given_up()).map(|queued| {
        let mut multiplexed = multiplexed.clone();
        async move {
            let answer = send_alone(&mut multiplexed, &queued.request).await;
            queued.complete(answer);
        }
    });
    join_all(sent).await;
}

fn fail(batch: Vec<QueuedRequest>, answer: &RedisResult<Value>) {
    for queued in batch {
        queued.complete(answer.clone());
    }
}

/// Whether the refusal means that no verb was run, and that the server may accept the verbs one by one: the keys of the batch are in
/// several slots of a cluster, or the user has no permission for one of them.
fn refuses_batches(refusal: &ServerError) -> bool {
    matches!(refusal.code(), "NOPERM" | "CROSSSLOT" | "MOVED" | "ASK")
}
